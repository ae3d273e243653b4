package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/show"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/effort"
)

// options are the flags of `jp query`.
type options struct {
	words      []string
	id         command.Maybe[string]
	fresh      bool
	pick       bool
	fork       command.Maybe[int]
	rootID     command.Maybe[string]
	directives []profiles.Directive
	model      command.Maybe[string]
	noActivate bool
	hidden     bool
	tmp        command.Maybe[time.Duration]
	title      command.Maybe[string]
	role       string
	toggles    []run.Toggle
	maxTurns   command.Maybe[int]
	timeout    command.Maybe[time.Duration]
	sub        command.Maybe[bool]
	maxSub     command.Maybe[int]
	maxDepth   command.Maybe[int]
	maxTokens  command.Maybe[*int64] // limit of this run; nil = unlimited
	maxCost    command.Maybe[*int64] // nano-dollars
	subTokens  command.Maybe[*int64] // limit of all sub-agents of a session
	subCost    command.Maybe[*int64]
	launcher   command.Maybe[string]
	wait       command.Maybe[time.Duration]
	print      bool
	reuse      bool
	schema     command.Maybe[string]
	stream     bool
	input      string
	attach     []string
	edit       bool
	noEdit     bool
	reasoning  string
	thoughts   command.Maybe[string] // style.reasoning.display
	composed   command.Maybe[string] // request from the editor, with the words and stdin
	heads      headless
	tape       record.Options
	client     *client // client that sent the message; nil = the request came in another way
}

// flags returns the flags of `jp query`, under the headings of its help.
func (o *options) flags() []*command.Option {
	toggled := func(name, short, usage string, on bool) *command.Option {
		f := &command.Option{Name: name, Short: []string{short}, Arg: "TOOL", Usage: usage}
		f.Take = func(s string, _ bool) error {
			if s == "" || strings.ContainsAny(s, " \t\n") {
				return fmt.Errorf("%q is not the name of a tool; %s all of them", s, wording.Either(on, "--all-tools enables", "--no-tools disables"))
			}
			o.toggles = append(o.toggles, run.Toggle{Flag: "--" + name, Name: s, On: on})
			return nil
		}
		return f
	}
	toggledAll := func(name, usage string, on bool) *command.Option {
		return &command.Option{Name: name, Usage: usage, Take: func(string, bool) error {
			o.toggles = append(o.toggles, run.Toggle{Flag: "--" + name, On: on})
			return nil
		}}
	}
	sub := func(name, usage string, on bool) *command.Option {
		return &command.Option{Name: name, Usage: usage, Take: func(string, bool) error { o.sub = command.Given(on); return nil }}
	}
	thoughts := func(name, usage, display string) *command.Option {
		return &command.Option{Name: name, Usage: usage, Take: func(string, bool) error { o.thoughts = command.Given(display); return nil }}
	}
	return slices.Concat(
		command.Group("the conversation",
			command.String(&o.id, "id", "TARGET", "the conversation: an id, ., recent, newest, previous, or new for a new one").Alias("i"),
			command.Bool(&o.fresh, "new", "the same as --id new").Alias("n"),
			command.Bool(&o.pick, "pick", "pick the conversation on the terminal, as with jp conversation ls --pick"),
			command.IntMaybe(&o.fork, "fork", "N", 0, -1, "fork the target first and keep its last N turns (default: all; 0: none)"),
			command.String(&o.rootID, "root-id", "ID", "the target must be below ID; with --id new, ID delegates the new conversation"),
			command.Text(&o.title, "title", "T", "the title of the new conversation").Alias("name"),
			command.Bool(&o.hidden, "hidden", "hide the new conversation from listings"),
			command.DurationMaybe(&o.tmp, "tmp", "DURATION", workspace.DefaultTmp, "let the new conversation expire after DURATION (default: one day)"),
			command.Bool(&o.noActivate, "no-activate", "do not make the conversation this terminal's active one"),
		),
		command.Group("the request",
			command.List(&o.attach, "attachment", "REF", "add to the request: a file, a folder, an https address, cmd:LINE or jp:ID[:TURNS]").Alias("a"),
			command.Bool(&o.edit, "edit", "write the request in an editor, which shows the words and the piped text").Alias("e"),
			command.Bool(&o.noEdit, "no-edit", "do not start an editor when there is nothing to ask").Alias("E"),
			command.Choice(&o.input, "input-format", "FORMAT", inputFormats(),
				"what stdin is: text, json (one task: {query, schema, context}) or stream-json (messages of a user, one a line)"),
		),
		command.Group("who answers", slices.Concat(workspace.ConfigFlags(&o.directives), []*command.Option{
			command.Model(&o.model, "MODEL", "the model: provider/model or an alias"),
			command.Choice(&o.reasoning, "reasoning", "EFFORT", effort.Levels(), "how much the model reasons: none, low, medium, high").Alias("effort"),
			toggled("tool", "t", "enable a tool that the config knows", true),
			toggled("no-tool", "T", "disable a tool", false),
			toggledAll("all-tools", "enable all tools that the config knows", true),
			toggledAll("no-tools", "disable all tools", false),
			command.Choice(&o.role, "role", "ROLE", run.PersonRoles(),
				"limit of the tools: main (all), scheduled (those that work without a person), synthesis (those that only read); "+
					"a new conversation keeps it"),
		})...),
		command.Group("the answer",
			command.String(&o.schema, "schema", "JSON|@FILE", "a JSON schema that the answer must match; stdout is then the JSON document").Alias("s", "json-schema"),
			command.Bool(&o.reuse, "reuse", "give the answer of an earlier conversation, if one was asked exactly this; nothing is paid then"),
			command.Bool(&o.stream, "stream", "print all that the model says as it says it, also in a pipe; what was printed is not asked for again if it breaks off"),
			thoughts("show-reasoning", "show the model's reasoning on stderr", "full"),
			thoughts("hide-reasoning", "do not show the reasoning (default)", "hidden"),
		),
		command.Group("limits",
			command.Duration(&o.timeout, "timeout", "DURATION", "stop the run after DURATION"),
			run.WaitFlag(&o.wait),
			command.Int(&o.maxTurns, "max-turns", "N", 1, "number of tool rounds that this turn may take"),
			command.Tokens(&o.maxTokens, "max-tokens", "tokens that the whole run may use, sub-agents included"),
			command.Cost(&o.maxCost, "max-cost", "US dollars that the whole run may cost, sub-agents included").Alias("max-budget-usd"),
		),
		command.Group("sub-agents",
			sub("sub-calls", "allow sub-agents", true),
			sub("no-sub-calls", "do not allow sub-agents", false),
			command.Int(&o.maxSub, "max-sub-calls", "N", 0, "number of sub-agent calls that this turn may make"),
			command.Int(&o.maxDepth, "max-depth", "N", 0, "levels of sub-agents below this conversation, at most 5"),
			command.Tokens(&o.subTokens, "max-sub-tokens", "tokens that the sub-agents of this turn may use together"),
			command.Cost(&o.subCost, "max-sub-cost", "US dollars that the sub-agents of this turn may cost together"),
			run.LauncherFlag(&o.launcher),
		),
		command.Group("recordings", record.Flags(&o.tape)...),
		command.Group("as in other agent programs", slices.Concat([]*command.Option{
			command.Bool(&o.print, "print", "headless: --non-interactive, and a new conversation unless one is named").Alias("p"),
		}, headlessFlags(o))...),
	)
}

// request returns the run.Request of the flags; plain is the number of words before --.
func (o *options) request(plain int) run.Request {
	r := run.Request{
		ID: o.id, New: o.fresh, Fork: o.fork, RootID: o.rootID, Title: o.title, Hidden: o.hidden, Expires: o.tmp, Role: o.role,
		Directives: o.directives, Toggles: o.toggles, Only: o.heads.only, Prompts: o.heads.prompts,
		Bounds: convstore.Budget{Tokens: o.maxTokens.Value, CostNano: o.maxCost.Value}, Limits: o.limits(),
		Session:  convstore.Change{Tokens: convstore.Choice(o.subTokens), CostNano: convstore.Choice(o.subCost)},
		Launcher: o.launcher, Reuse: o.reuse,
	}
	if o.model.Set {
		r.UseModel(o.model.Value)
	}
	r.UseReasoning(o.reasoning)
	r.Flags = append(r.Flags, o.flagDirectives()...)
	if plain > 0 && len(o.words) > 0 {
		r.Word = o.words[0]
	}
	return r
}

// limits returns the flags that give a resumed run the limits of this one, which are not stored.
// All values are numbers, durations or one word, which need no quotes in a shell.
func (o *options) limits() (line string) {
	add := func(set bool, words string) {
		if set {
			line += " --" + words
		}
	}
	of := func(n *int64, decimals int) string {
		text := strings.Trim(command.Amount(n, decimals), `"`)
		if decimals > 0 && n != nil {
			text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	add(o.timeout.Set, "timeout "+o.timeout.Value.String())
	add(o.wait.Set, "wait-limit "+o.wait.Value.String())
	add(o.maxTurns.Set, "max-turns "+strconv.Itoa(o.maxTurns.Value))
	add(o.maxTokens.Set, "max-tokens "+of(o.maxTokens.Value, 0))
	add(o.maxCost.Set, "max-cost "+of(o.maxCost.Value, 9))
	add(o.sub.Set && !o.sub.Value, "no-sub-calls")
	add(o.maxSub.Set, "max-sub-calls "+strconv.Itoa(o.maxSub.Value))
	add(o.maxDepth.Set, "max-depth "+strconv.Itoa(o.maxDepth.Value))
	add(o.subTokens.Set, "max-sub-tokens "+of(o.subTokens.Value, 0))
	add(o.subCost.Set, "max-sub-cost "+of(o.subCost.Value, 9))
	return line
}

// showOptions returns what is shown of a run, and to whom.
func (o *options) showOptions(unread context.CancelCauseFunc) show.Options {
	s := show.Options{Partial: o.heads.partial, Words: o.stream, Unread: unread}
	if c := o.client; c != nil {
		s.Asks = o.heads.prompt.Set && o.heads.mode.Value != stream.ModeDontAsk
		s.Client = &show.Client{
			Message: c.run.in, Replay: o.heads.replayUsers, Paid: c.paid, Begun: func(id convstore.ID) { c.run.id = id }, Answered: c.answered,
		}
	}
	return s
}
