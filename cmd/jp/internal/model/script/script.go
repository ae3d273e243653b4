// Package script is a model that follows a TOML file. It needs no network and no key, and
// everything around it is real: processes, store, tools, ledger. It serves demonstrations, people's
// tests of their own profiles, and ours.
//
// A script is a list of rules. They are tried from the top for each request; the first whose
// conditions all hold answers. Nothing is remembered from one request to the next, so any number of
// processes may follow one script at once.
//
//	[captures]                                  # what rules may quote, found in the thread
//	first = 'conversation_id="(jp-c[0-9]+)"'    # the group, or the whole match without one
//	last = { pattern = 'jp-c[0-9]+', match = -1, default = "none" }
//	open = { text = "{{" }                      # always this
//	root = { workspace = true }                 # the path of the workspace
//
//	[defaults]                                  # for rules that say nothing themselves
//	delay = "50ms"
//
//	[[rule]]
//	name = "ask two researchers"                # for messages
//	# conditions; a list holds if one of its entries does
//	profile = "agent/*"                         # of the request, as a path pattern; "" = no profile
//	variant = "slow"                            # script/demo.toml#slow
//	turn = 1                                    # of the conversation
//	round = [1, 2]                              # model call within the turn
//	attempt = 1                                 # of the same request, for failures that pass
//	contains = "part"                           # in the new messages: results, or the user's words
//	not_contains = "part"                       # in none of them
//	matches = '(?i)regexp'
//	query = "part"                              # in the user's last words, also rounds later
//	asked = "all of it"                         # the user's last words, whole; an id jp-c1 stands for any other
//	run = "1.2"                                 # of a recording: which sub-agent, see Trail
//	system = "part"                             # in the system prompt
//	tool = "fs_read_file"                       # a result of it is among the new messages
//	failed = true                               # one of the new results is an error
//	has_tool = "jp_query"                       # is offered
//	missing_tools = ["jp_query"]                # none of them is offered
//	no_calls = true                             # calls are ruled out, as in a closing call
//	# reply
//	reasoning = "..."                           # or an array, of several blocks
//	text = "... {{first}} ..."                  # {{name}} is a capture
//	tool_calls = [{ name = "jp_query", arguments = { id = "{{first}}" } }]  # or raw_arguments = "{"
//	usage = { input = 10, output = 5, cost_nano = 900 }  # estimated without; also cache_read, cache_write, estimated = true
//	lost = [{ input = 10, output = 5 }]         # of a recording: used by attempts that failed before the reply
//	stop = "end"                                # end, tool_use, max_tokens, refusal
//	delay = "1s"                                # before the reply
//	chunk = 20                                  # characters at a time
//	chunk_delay = "10ms"                        # before each further one
//	error = { kind = "rate_limit", status = 429, retry_after = "2s", message = "slow down" }
//	fault = "hangup"                            # hangup, malformed, html, redirect
//	hang = true                                 # say nothing more and never end
//	[rule.captures]                             # only for this rule
//
// Errors, faults and hanging come after what the rule says before them, errors and faults after its
// usage too. Unknown keys, unknown captures and patterns that do not compile are errors of the
// file, with the line. A request that no rule answers, or a capture that finds nothing, is an error
// of the model.
//
// A recording is a script with a [recorded] table, which Record and Compile make of a run of real
// models, and which Replay follows: a rule for each request, and for each request only its own.
package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools/files"
)

// maxFile bounds a script, in bytes: reading one takes every process that follows it a moment.
const maxFile = 8 << 20

// New is a model.Provider. The model's name is the path of the script, relative to Config.Dir and
// inside it, symbolic links resolved; "#variant" may follow.
func New(c model.Config) (model.Stream, error) {
	name, variant, _ := strings.Cut(c.Model.Name, "#")
	data, err := readIn(c.Dir, name)
	if err != nil {
		return nil, &model.Error{Provider: c.Name, Kind: model.KindUnknownModel, Final: true, Model: c.Model.ID,
			Message: fmt.Sprintf("%s: %v", cmp.Or(name, c.Model.Name), err), Err: err,
			Hint: "script/FILE is a model that follows the rules of a TOML file; FILE is its path below the workspace"}
	}
	s, err := Parse(name, data)
	if err != nil {
		return nil, &model.Error{Provider: c.Name, Kind: model.KindBadRequest, Final: true, Message: err.Error(), Err: err}
	}
	s.dir = c.Dir
	return s.Stream(c.Name, variant), nil
}

func readIn(dir, name string) ([]byte, error) {
	if dir == "" {
		return nil, errors.New("there is no workspace to find it in")
	}
	if !filepath.IsLocal(name) {
		return nil, errors.New("must be a path inside the workspace")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, files.Reason(err)
	}
	defer func() { _ = root.Close() }()
	return read(root, name)
}

// read returns the bytes of a script. Its errors name no path: the caller does.
func read(at files.Place, name string) ([]byte, error) {
	data, _, err := files.ReadRegular(at, name, maxFile, 0)
	return data, files.Reason(err)
}

// Script is a parsed script. It does not change and is safe for concurrent use.
type Script struct {
	name     string
	rules    []rule
	recorded *Recorded // nil = it was written
	dir      string    // of the workspace; "" = not known
}

// Fault is the cause in the *model.Error of a rule with a fault: what a server that follows the
// script has to do to its reply.
type Fault string

const (
	Hangup    Fault = "hangup"    // the connection ends in the middle
	Malformed Fault = "malformed" // an event is no JSON
	HTML      Fault = "html"      // the answer is a web page, with status 200
	Redirect  Fault = "redirect"  // the answer is a redirect to another host
)

// Error returns what a client sees of the fault.
func (f Fault) Error() string {
	switch f {
	case Hangup:
		return "the reply broke off"
	case Malformed:
		return "an event of the reply is not JSON"
	case HTML:
		return "answered with text/html, not with an event stream"
	case Redirect:
		return "redirected to another host"
	}
	return string(f)
}

// Stream returns the model of the script. Provider is the name in its errors and reasoning; variant
// is what rules may ask for by variant.
func (s *Script) Stream(provider, variant string) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			s.run(ctx, request{Request: r, variant: variant, dir: s.dir}, provider, yield)
		}
	}
}

// run yields the reply or the error to r.
func (s *Script) run(ctx context.Context, r request, provider string, yield func(model.Part, error) bool) {
	if err := s.answer(ctx, r, provider, yield); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(model.Part{}, err)
	}
}

// errConsumer ends an answer because its consumer wants no more.
var errConsumer = errors.New("the consumer stopped")

// answer yields a reply. A nil error means that it is complete or not wanted any more.
func (s *Script) answer(ctx context.Context, r request, provider string, yield func(model.Part, error) bool) error {
	replays := r.report != nil
	if !replays {
		r.report = func(int, error) {}
	}
	bad := func(format string, args ...any) error {
		err := &model.Error{Provider: provider, Kind: model.KindBadRequest, Final: true,
			Message: s.name + ": " + fmt.Sprintf(format, args...)}
		r.report(0, err)
		return err
	}
	if err := r.Check(); err != nil {
		if e, ok := errors.AsType[*model.Error](err); ok {
			return bad("refused, as a real provider would: %s", e.Message)
		}
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	rule := s.match(r)
	if rule == nil && s.recorded != nil && r.ToolChoice == "none" && s.ranOut(r.Run) {
		<-ctx.Done() // with or without a closing call, the run is the same
		return context.Cause(ctx)
	}
	if rule == nil && s.recorded != nil {
		return bad("%s", s.differs(r))
	}
	if rule == nil {
		return bad("no rule answers profile %q, turn %d, round %d, attempt %d, last message %.80q",
			r.Profile, r.Turn, r.Round, max(r.Attempt, 1), strings.Join(r.latest(), "\n"))
	}
	said, err := rule.render(r)
	if err != nil {
		return bad("%s: %v", rule.title(), err)
	}
	calls, stop, err := rule.finish(r, said)
	if err != nil {
		return bad("%s: %v", rule.title(), err)
	}
	r.report(rule.number, nil)
	model.Sent(ctx)

	part := func(p model.Part) error {
		if !yield(p, nil) {
			return errConsumer
		}
		return nil
	}
	if replays {
		err = rule.again(ctx, provider, said, r.Request)
	}
	if err == nil {
		err = rule.say(ctx, provider, said, part)
	}
	if err == nil && rule.usage.Usage != nil && (rule.failure != nil || rule.fault != "") {
		err = part(rule.usage)
	}
	if err == nil {
		err = rule.fail(ctx, provider, said)
	}
	for _, call := range calls {
		if err == nil {
			err = part(model.Part{Call: call})
		}
	}
	if err == nil {
		err = part(rule.used(r, said))
	}
	if err == nil {
		err = part(model.Part{Stop: stop})
	}
	if err == errConsumer {
		return nil
	}
	return err
}

// say yields the reasoning and the text, piece by piece.
func (r *rule) say(ctx context.Context, provider string, said words, part func(model.Part) error) error {
	if err := model.Sleep(ctx, r.delay); err != nil {
		return err
	}
	first := true
	pieces := func(text string, wrap func(string) model.Part) error {
		for runes := []rune(text); len(runes) > 0; {
			if !first {
				if err := model.Sleep(ctx, r.chunkDelay); err != nil {
					return err
				}
			}
			first = false
			n := min(r.chunk, len(runes))
			if err := part(wrap(string(runes[:n]))); err != nil {
				return err
			}
			runes = runes[n:]
		}
		return nil
	}
	for _, block := range said.reasoning {
		if err := pieces(block, func(s string) model.Part { return model.Part{ReasoningDelta: s} }); err != nil {
			return err
		}
		if err := part(model.Part{Reasoning: &model.Reasoning{Text: block, Provider: provider}}); err != nil {
			return err
		}
	}
	return pieces(said.text, func(s string) model.Part { return model.Part{Text: s} })
}

// fail returns the error that the rule asks for. If the rule asks to hang, it waits for the end of
// the context.
func (r *rule) fail(ctx context.Context, provider string, said words) error {
	switch {
	case r.hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case r.fault != "":
		e := &model.Error{Provider: provider, Kind: model.KindStream, Message: r.fault.Error(), Err: r.fault}
		e.Final = r.fault == HTML || r.fault == Redirect
		return e
	case r.failure != nil:
		return r.broken(provider, said)
	}
	return nil
}

// broken returns the failure as an error of a provider.
func (r *rule) broken(provider string, said words) *model.Error {
	e := *r.failure
	e.Provider, e.Message = provider, said.failure
	return &e
}

// again does what retries did before the reply: the run is charged for each attempt that failed, and
// finds out whether there is room for the next one.
func (r *rule) again(ctx context.Context, provider string, said words, req model.Request) error {
	failed := &model.Error{Provider: provider, Kind: model.KindStream, Message: "an attempt that failed when it was recorded"}
	if r.failure != nil {
		failed = r.broken(provider, said)
	}
	for _, p := range r.lost {
		if req.Waits == nil {
			return nil
		}
		if err := req.Waits(ctx, model.Lost{Usage: p.Usage, Cost: p.Cost, Estimated: p.Estimated, Err: failed}); err != nil {
			return err
		}
		if req.Again == nil {
			continue
		}
		if _, err := req.Again(ctx); err != nil {
			return err
		}
	}
	return nil
}

// used returns the usage that the rule names, or an estimate.
func (r *rule) used(req request, said words) model.Part {
	if r.usage.Usage != nil {
		return r.usage
	}
	n := len(said.text)
	for _, block := range said.reasoning {
		n += len(block)
	}
	for _, c := range said.calls {
		n += len(c.name) + len(c.arguments)
	}
	return model.Part{Usage: &convstore.Usage{Input: req.Estimate(), Output: int64(n)/3 + 1}}
}
