// Package record records the replies of models to a tree of runs in one file, and replays them.
// During a replay no model is asked, and a request that was not recorded is an error. In a
// recording the name of a variable stands for its value if that is a secret.
package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/tools/files"
	"jp/tools/proc"
	"jp/tools/vanishing"
)

// A Tape records or replays the runs of this process, as a part of a tree of runs. All processes of
// the tree share a folder that no tool reaches. A variable names it to sub-agents:
//
//	recording.toml   of a replay: the recording as it was when the first run began
//	part-*           one for each process: a line of JSON for each reply
//
// The first run, which a person started, makes the folder. At the end it makes the recording from
// the parts, or compares the replay with the recording.
type Tape struct {
	con    *console.Console
	ws     *workspace.Workspace
	dir    string // "" = not begun, or on another machine
	trail  *script.Trail
	replay *script.Script // recording that is replayed; nil = this run is recorded
	above  *Tape          // tape that has the part for what is recorded here; nil = this one

	main   bool           // whether this is the first run
	own    *vanishing.Dir // dir of the first run; nil = not begun
	record string         // file to make; "" = none
	into   *os.Root       // its folder, open from the beginning; nil = none
	named  string         // file to make or to replay, as the person named it
	data   []byte         // recording to replay

	mu     sync.Mutex
	part   *os.File                    // nil until the first line
	send   func(json.RawMessage) error // keeps lines where another machine makes the recording; nil = they are for a part
	opened bool                        // a model was opened
}

// The variables that name the tape to a sub-agent. They are read only if another jp started this
// one. Tools do not get them.
const (
	tapeVariable = "JP_TAPE"     // "record" or "replay", ":" and the folder; "" = on another machine
	runVariable  = "JP_TAPE_RUN" // name of this run in the tree
)

const (
	taping    = "record"
	replaying = "replay"
)

const (
	folderName    = "tape-"
	partName      = "part-"
	recordingName = "recording.toml"
)

// Open returns a tape that records to one file or replays another; nil without either. End makes
// the recording. Open finds mistakes in the files, so that they cost nothing.
func Open(con *console.Console, ws *workspace.Workspace, record, replay string) (*Tape, error) {
	if record == "" && replay == "" {
		return nil, nil
	}
	t, data, err := prepare(con, ws, record, replay)
	if err != nil {
		return nil, err
	}
	if t.record != "" { // its folder is that of now: a tool may put a link there
		links := files.Links{Closed: []string{con.StateDir()}}
		if t.into, err = links.OpenFolder(filepath.Dir(t.record)); err != nil {
			return nil, exit.Usagef("--record %s: cannot be made: %v", record, files.Reason(err))
		}
	}
	t.data = data
	return t, nil
}

// Begin makes the folder. It must be called before the first run begins, and after all mistakes in
// what is asked were found.
func (t *Tape) Begin() (err error) {
	if t == nil || !t.main {
		return nil
	}
	top := filepath.Join(t.con.StateDir(), "tapes")
	if err = os.MkdirAll(top, 0o700); err != nil {
		return err
	}
	vanishing.Sweep(top, folderName)
	if t.own, err = vanishing.Make(top, folderName); err != nil {
		return err
	}
	t.dir = t.own.Path
	if t.data != nil {
		err = os.WriteFile(filepath.Join(t.dir, recordingName), t.data, 0o600)
	}
	return err
}

// prepare checks the files of a tape. data is the recording to replay.
func prepare(con *console.Console, ws *workspace.Workspace, record, replay string) (t *Tape, data []byte, err error) {
	t = &Tape{con: con, ws: ws, trail: script.NewTrail(""), main: true, named: cmp.Or(record, replay)}
	if record != "" {
		t.record = con.Abs(record)
		if err := files.CanMake(t.record); errors.Is(err, fs.ErrExist) {
			return nil, nil, exit.Usagef("--record %s: the file exists", record).WithHint("remove it, or name another file")
		} else if err != nil {
			return nil, nil, exit.Usagef("--record %s: cannot be made: %v", record, files.Reason(err))
		}
	} else {
		if t.replay, data, err = script.OpenRecording(con.Abs(replay), replay); err != nil {
			if bad := (*script.Error)(nil); errors.As(err, &bad) {
				return nil, nil, exit.Usagef("--replay %v", bad).WithHint("jp query --record FILE makes a recording; use a script with --model script/FILE")
			}
			return nil, nil, exit.Usagef("--replay %s: %v", replay, err)
		}
	}
	return t, data, checkState(con)
}

// checkState returns an error if there is no state folder.
func checkState(con *console.Console) error {
	if con.StateDir() == "" {
		return exit.Usagef("--record, --replay: there is no home folder for the files that the runs share").WithHint("set HOME or XDG_STATE_HOME")
	}
	return nil
}

// Join joins the tape of the jp that started this one, if there is one.
func Join(con *console.Console, ws *workspace.Workspace) (_ *Tape, err error) {
	what, dir, _ := strings.Cut(con.Getenv(tapeVariable), ":")
	t := &Tape{con: con, ws: ws, dir: dir, trail: script.NewTrail(con.Getenv(runVariable))}
	switch what {
	case "":
		return nil, nil
	case taping:
	case replaying:
		if t.replay, _, err = script.OpenRecording(filepath.Join(dir, recordingName), "the recording"); err != nil {
			return nil, fmt.Errorf("the recording that is replayed: %w", err)
		}
	default:
		return nil, fmt.Errorf("$%s: %q is neither %s nor %s", tapeVariable, what, taping, replaying)
	}
	return t, nil
}

// Model returns the model of this run as the tape records or replays it. lookup finds what is known
// about it, and open opens it; a replay does not call open. dir is the folder of script models.
func (t *Tape) Model(dir string, lookup func() (model.Info, error), open func() (model.Stream, model.Info, error)) (model.Stream, model.Info, error) {
	if t == nil {
		return open()
	}
	if t.replay == nil {
		s, info, err := open()
		if err != nil && t.underway() {
			s, info, err = failing(lookup, err)
		}
		if err != nil {
			return nil, info, err
		}
		t.mu.Lock()
		t.opened = true
		t.mu.Unlock()
		return t.trail.Follow(script.Record(s, info, func(e script.Entry) error { return t.writeLine(e) })), info, nil
	}
	info, err := lookup()
	if err != nil {
		return nil, info, err
	}
	info.Provider = script.Provider // so that no provider gets a replayed reply back as its own
	return t.trail.Follow(t.replay.Replay(dir, t.followed)), info, nil
}

// underway reports whether a recorded query has started, so that a failure from now on is a part of
// it.
func (t *Tape) underway() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.main || t.opened
}

// failing returns a model whose requests all fail with err. It stands for a known model that could
// not be opened, for example because its key is missing. A replay opens no model, so it can only
// repeat failures of requests.
func failing(lookup func() (model.Info, error), err error) (model.Stream, model.Info, error) {
	info, unknown := lookup()
	if failed := (*model.Error)(nil); unknown != nil || !errors.As(err, &failed) {
		return nil, info, err
	}
	return func(context.Context, model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) { yield(model.Part{}, err) }
	}, info, nil
}

// Replays reports whether a recording answers instead of models.
func (t *Tape) Replays() bool { return t != nil && t.replay != nil }

// Asked reports whether a model was asked when what is replayed was recorded.
func (t *Tape) Asked(id string) bool {
	_, ok := t.replay.Models()[id]
	return ok
}

// AddPrices adds the prices of the models that are replayed, from the recording: this machine may
// not know their providers, and prices change.
func (t *Tape) AddPrices(p *model.Providers) {
	if !t.Replays() {
		return
	}
	for id, price := range t.replay.Models() {
		if price != nil {
			p.Prices[id] = *price
		}
		if _, err := model.Lookup(id, *p); err != nil {
			provider, _, _ := strings.Cut(id, "/")
			p.LLM[provider] = model.Endpoint{Type: "openai", BaseURL: "https://replay.invalid/"} // nobody sends a request to it
		}
	}
}

// Environ returns the variables that name the tape to a sub-agent. A call with query starts it.
func (t *Tape) Environ(call, query string) []string {
	if t == nil {
		return nil
	}
	return []string{tapeVariable + "=" + wording.Either(t.replay == nil, taping, replaying) + ":" + t.dir, runVariable + "=" + t.trail.Below(call, query)}
}

// Below returns the tape for what a sub-agent delegates, whose process has this environment.
func (t *Tape) Below(environ []string) *Tape {
	if t == nil {
		return nil
	}
	run := ""
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, runVariable+"="); ok {
			run = value
		}
	}
	return &Tape{con: t.con, ws: t.ws, dir: t.dir, replay: t.replay, trail: script.NewTrail(run), above: cmp.Or(t.above, t)}
}

// Elsewhere returns environ for a sub-agent on another machine, which has not the folder of the
// tape.
func (t *Tape) Elsewhere(environ []string) []string {
	return proc.Environ(environ, "*", tapeVariable+"="+taping+":")
}

// Through sends what this run records to another machine, if the recording is made there.
func (t *Tape) Through(send func(line json.RawMessage) error) {
	if t != nil && t.dir == "" {
		t.send = send
	}
}

// Keeper returns what keeps the lines that a sub-agent elsewhere records, whose process has this
// environment; nil = nothing is recorded. It keeps those of the run of this sub-agent alone, one
// for each request, and none with which the recording could not be made.
func (t *Tape) Keeper(environ []string) func(line json.RawMessage) error {
	if t == nil || t.Replays() {
		return nil
	}
	type request struct{ round, attempt int }
	below, seen := t.Below(environ), map[request]bool{}
	return func(line json.RawMessage) error {
		var e script.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("a line of a recording: %w", err)
		}
		if e.Run != below.trail.Run() {
			return fmt.Errorf("a line of a recording of the run %.64q, and not of %q", e.Run, below.trail.Run())
		}
		if at := (request{e.Round, e.Attempt}); seen[at] {
			return fmt.Errorf("a second line of a recording for attempt %d of round %d", e.Attempt, e.Round)
		} else {
			seen[at] = true
		}
		data, err := script.Compile([]script.Entry{e}, "", script.Recorded{})
		if err == nil {
			_, err = script.ParseRecording("line", data)
		}
		if err != nil {
			return fmt.Errorf("a line of a recording: %w", err)
		}
		return below.writeLine(e)
	}
}

// Place returns the place of a call in the recording; "" = there is none. Put gives the tape the
// place of a call that another process knows.
func (t *Tape) Place(call string) string {
	if t == nil {
		return ""
	}
	return t.trail.Place(call)
}

// Put is described with Place.
func (t *Tape) Put(call, place string) {
	if t != nil {
		t.trail.Put(call, place)
	}
}

// step is a request of a replay.
type step struct {
	Run    string `json:"run"`
	Rule   int    `json:"rule"` // number of the rule that answered; 0 = none did
	Strays string `json:"strays,omitempty"`
}

// followed records how a request of a replay was answered.
func (t *Tape) followed(rule int, err error) {
	s := step{Run: t.trail.Run(), Rule: rule}
	if err != nil {
		s.Strays = err.Error()
		if e, ok := errors.AsType[*model.Error](err); ok {
			s.Strays = strings.TrimPrefix(e.Message, t.replay.Name()+": ") // the name differs between processes
		}
	}
	if err := t.writeLine(s); err != nil {
		t.con.Warn("--replay: %v", err) // compare will find the rule unused
	}
}

// writeLine appends a line to the part of this process.
func (t *Tape) writeLine(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if t.above != nil {
		t = t.above
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.send != nil:
		return t.send(line)
	case t.dir == "":
		return errors.New("a recording whose folder is not known")
	case t.part == nil:
		if t.part, err = os.CreateTemp(t.dir, partName); err != nil {
			return err
		}
	}
	_, err = t.part.Write(append(line, '\n'))
	return err
}

// Remove removes the tape.
func (t *Tape) Remove() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.part != nil {
		_ = t.part.Close()
	}
	if t.into != nil {
		_ = t.into.Close()
	}
	if t.own != nil {
		if err := t.own.Remove(); err != nil {
			t.con.Warn("%v", err)
		}
	}
}
