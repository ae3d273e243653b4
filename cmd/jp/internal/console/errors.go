package console

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/archive"
	"jp/convstore/search"
	"jp/profiles"
	"jp/tools"
)

// Report is an error as a user sees it.
type Report struct {
	Code    string
	Status  exit.Status
	Message string // "" = nothing is said
	Hint    string
}

// Explain is the one place where errors become kinds, exit statuses and hints. If an error wraps
// several known ones, the first case counts: a signal outranks what it caused, and a closed stdout
// what could not be written any more.
func Explain(err error) Report {
	r := Report{Code: "failed", Status: exit.Failed, Message: err.Error()}
	whole := err
	if n, ok := err.(*exit.Next); ok {
		whole = n.Err
	}
	if _, many := whole.(interface{ Unwrap() []error }); many { // each in a line, which are shown as one
		r.Message = strings.ReplaceAll(r.Message, "\n", "; ")
	}
	if errors.Is(err, term.ErrClosed) && !errors.As(err, new(*SignalError)) {
		return Report{Code: "stdout_closed", Status: exit.Closed}
	}
	_ = as(err, func(e *SignalError) { r.is("signal", e.status(), "") }) ||
		as(err, func(e *exit.Error) {
			if r.is(e.Code, e.Status, e.Hint); e.Msg == "" {
				r.Message = ""
			}
		}) ||
		as(err, func(e *rule.Refusal) {
			r.is("refused_"+string(e.Code), wording.Either(e.Code == rule.CodeProvider, exit.Provider, exit.Refused), e.Hint)
		}) ||
		as(err, func(*convstore.NotFoundError) {
			r.is("not_found", exit.NotFound, "`jp conversation ls --hidden` lists what there is")
		}) ||
		as(err, func(e *convstore.ScopeError) {
			r.is("scope", exit.Scope, fmt.Sprintf("`jp conversation ls --hidden --root=%s` lists what is below it", e.Root))
		}) ||
		as(err, func(e *convstore.BusyError) {
			r.is("busy", exit.Busy, "try again; a process that holds the store may be stopped, or busy with something long")
			if e.Away > 0 { // nobody can be asked to end it
				r.Hint = "try again then"
			} else if e.ID != 0 && e.Waited > 0 { // nobody asks it any more
				r.Hint = fmt.Sprintf("its process may be suspended: once it goes on, `jp stop %v` again", e.ID)
			} else if e.ID != 0 {
				r.Hint = fmt.Sprintf("`jp wait %v` waits for the end of its run, `jp stop %v` ends it", e.ID, e.ID)
			}
		}) ||
		as(err, func(*convstore.ClaimError) { r.is("busy", exit.Busy, "wait for what runs there to end, or stop that") }) ||
		as(err, func(e *convstore.LimitsError) {
			if r.is("refused_limits", exit.Refused, fmt.Sprintf("`jp query --id %s` finishes the turn first", e.ID)); e.By != 0 {
				r.is("busy", exit.Busy, "leave out --max-sub-tokens and --max-sub-cost, or wait for that work to end")
			}
		}) ||
		as(err, func(*convstore.ChildrenError) {
			r.is("children", exit.Usage, "--cascade removes them too, --promote hands them to its parent")
		}) ||
		as(err, func(e *convstore.CycleError) {
			if r.is("cycle", exit.Usage, ""); e.Parent != e.ID {
				r.Hint = "--no-parent makes a root of it, and then the other can go below"
			}
		}) ||
		as(err, func(*search.PatternError) { r.is("pattern", exit.Usage, "") }) ||
		as(err, func(*convstore.RangeError) { r.is("usage", exit.Usage, "") }) ||
		as(err, func(*archive.ImportError) { r.is("malformed", exit.Usage, "nothing was imported") }) ||
		as(err, func(*archive.ConflictError) {
			r.is("conflict", exit.Failed, "nothing was imported; --new-ids imports all of it beside what is here")
		}) ||
		as(err, r.place) ||
		as(err, func(e *convstore.TakenError) {
			r.is("store_taken", exit.Failed, fmt.Sprintf("`jp store adopt %[1]s` takes the store back with all that is in it; `jp store adopt --leave %[1]s` begins a new one", wording.ShellWord(e.By)))
		}) ||
		as(err, func(e *convstore.SchemaError) {
			r.is("store_schema", exit.Failed, wording.Either(e.Have > e.Want, "use a jp at least as new as the one that wrote it", ""))
		}) ||
		as(err, func(*convstore.DamagedError) {
			r.is("store_damaged", exit.Failed, "the file was left as it is: `jp store check --salvage FILE` writes what can be read of it; then put a good copy in its place, or move it away")
		}) ||
		as(err, r.config) ||
		as(err, func(e *tools.DefinitionError) { r.is("tool_definition", exit.Usage, e.Hint) }) ||
		as(err, func(e *model.Error) { r.is("provider_"+string(e.Kind), exit.Provider, e.Advice()) }) ||
		r.sentinel(err)
	as(err, r.next)
	return r
}

// as calls fill if err is or wraps an E.
func as[E error](err error, fill func(E)) bool {
	e, ok := errors.AsType[E](err)
	if ok {
		fill(e)
	}
	return ok
}

func (r *Report) is(code string, s exit.Status, hint string) {
	r.Code, r.Status, r.Hint = code, s, hint
}

func (r *Report) next(n *exit.Next) {
	if r.Status == exit.Usage {
		r.Status = exit.Failed
	}
	if r.Hint != "" && n.Hint != "" {
		r.Hint += "; "
	}
	r.Hint += n.Hint
	as(n.Err, r.next) // it may have been begun within something else that was
}

func (r *Report) place(e *convstore.PlaceError) {
	const elsewhere = "$JP_STORE or store.path in the user's config.toml names another place"
	if e.Workspace == "" {
		r.is("store_place", exit.Usage, elsewhere)
		return
	}
	r.is("store_place", exit.Usage, fmt.Sprintf("%s, outside of %s; or move %s away, which makes that folder a workspace",
		elsewhere, e.Workspace, filepath.Join(e.Workspace, ".jp")))
}

func (r *Report) config(e *profiles.Error) {
	r.is("config", exit.Usage, e.Hint)
	switch {
	case errors.Is(e, profiles.ErrNotFound):
		r.Code, r.Status = "not_found", exit.NotFound
	case errors.Is(e, profiles.ErrWithheld):
		r.is("untrusted", exit.Refused, "`jp trust` shows what it would allow and asks")
	}
}

// sentinel knows the errors that carry no data.
func (r *Report) sentinel(err error) bool {
	switch {
	case errors.As(err, new(*term.OutError)):
		r.is("stdout", exit.Failed, "what was printed is not all of it")
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			r.is("disk_full", exit.Failed, "what was printed is not all of it: make room where stdout goes")
		}
	case errors.Is(err, profiles.ErrNoWorkspace):
		r.is("no_workspace", exit.NotFound, "`jp init` makes one here; --workspace PATH names another")
	case errors.Is(err, convstore.ErrGone):
		r.is("store_gone", exit.Failed, "put it back where it was; nothing was written anywhere else")
	case errors.Is(err, convstore.ErrStopped):
		r.is("stopped", exit.Interrupted, "")
	case errors.Is(err, convstore.ErrReadOnly):
		r.is("read_only", exit.Usage, "--no-persist forbids writing")
	case errors.Is(err, term.ErrNobody), errors.Is(err, tools.ErrNobody):
		r.is("refused", exit.Refused, "")
	case errors.Is(err, context.DeadlineExceeded):
		r.is("deadline", exit.Deadline, "")
	case errors.Is(err, context.Canceled):
		r.is("signal", exit.Interrupted, "")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		r.is("too_many_files", exit.Failed, openFilesHint())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		r.is("disk_full", exit.Failed, "nothing was half-written; make room and try again (removing conversations takes room too)")
	case errors.Is(err, syscall.EIO):
		r.is("disk", exit.Failed, "the disk or its file system failed: the system's log says more; `jp store check` reads all of the store")
	case errors.Is(err, syscall.EROFS):
		r.is("disk_read_only", exit.Failed, "the file system cannot be written to; --no-persist asks without storing anything, and reading goes on")
	default:
		return false
	}
	return true
}

// openFilesHint names the limit that the process has reached.
func openFilesHint() string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return "`ulimit -n` shows and sets how many files a process may have open"
	}
	return fmt.Sprintf("a process may have %d files open here; `ulimit -n` sets that", limit.Cur)
}
