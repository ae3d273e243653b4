package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

// queryOptions are the flags of `jp query`.
type queryOptions struct {
	words      []string
	id         maybe[string]
	fresh      bool
	fork       maybe[int]
	rootID     maybe[string]
	directives []profiles.Directive
	model      maybe[string]
	noActivate bool
	hidden     bool
	tmp        maybe[time.Duration]
	title      maybe[string]
	role       string
	toggles    []toggle
	maxTurns   maybe[int]
	timeout    maybe[time.Duration]
	sub        maybe[bool]
	maxSub     maybe[int]
	maxDepth   maybe[int]
	maxTokens  maybe[*int64] // of this run; nil = unlimited
	maxCost    maybe[*int64] // nano-dollars
	subTokens  maybe[*int64] // of all sub-agents of a session
	subCost    maybe[*int64]
	print      bool
	schema     maybe[string]
	input      string
	attach     []string
	edit       bool
	noEdit     bool
	reasoning  string
	thoughts   maybe[string] // style.reasoning.display
	composed   maybe[string] // in an editor, from the words and stdin
	heads      headless
	tape       tapeOptions
	client     *client // client that sent the message; nil = the request came in another way
}

// toggle is one --tool, --no-tool, --all-tools or --no-tools, in order. An empty name means all tools.
type toggle struct {
	flag string
	name string
	on   bool
}

const defaultTmp = 24 * time.Hour

// flags are those of `jp query`, under the headings of its help.
func (o *queryOptions) flags() []*option {
	toggled := func(name, short, usage string, on bool) *option {
		f := &option{name: name, short: []string{short}, arg: "TOOL", usage: usage}
		f.set = func(s string, _ bool) error {
			if s == "" || strings.ContainsAny(s, " \t\n") {
				return fmt.Errorf("%q is no name of a tool; %s all of them", s, wording.Either(on, "--all-tools enables", "--no-tools disables"))
			}
			o.toggles = append(o.toggles, toggle{flag: "--" + name, name: s, on: on})
			return nil
		}
		return f
	}
	toggledAll := func(name, usage string, on bool) *option {
		return &option{name: name, usage: usage, set: func(string, bool) error {
			o.toggles = append(o.toggles, toggle{flag: "--" + name, on: on})
			return nil
		}}
	}
	sub := func(name, usage string, on bool) *option {
		return &option{name: name, usage: usage, set: func(string, bool) error { o.sub = maybe[bool]{true, on}; return nil }}
	}
	thoughts := func(name, usage, display string) *option {
		return &option{name: name, usage: usage, set: func(string, bool) error { o.thoughts = maybe[string]{true, display}; return nil }}
	}
	return slices.Concat(
		grouped("the conversation",
			stringFlag(&o.id, "id", "TARGET", "the conversation: an id, ., recent, newest, previous, or new for a fresh one").alias("i"),
			boolFlag(&o.fresh, "new", "the same as --id new").alias("n"),
			intMaybe(&o.fork, "fork", "N", 0, -1, "fork the target first, keeping its last N turns (all without N, 0 = a blank child)"),
			stringFlag(&o.rootID, "root-id", "ID", "the target must be below ID; with --id new the new conversation is delegated by ID"),
			stringFlag(&o.title, "title", "T", "the title of the new conversation").alias("name"),
			boolFlag(&o.hidden, "hidden", "hide the new conversation from listings"),
			durationMaybe(&o.tmp, "tmp", "DURATION", defaultTmp, "let the new conversation expire (after a day without DURATION)"),
			boolFlag(&o.noActivate, "no-activate", "do not make it this session's active conversation"),
		),
		grouped("the request",
			listFlag(&o.attach, "attachment", "REF", "add to the request: a file, a folder, an https address, cmd:LINE or jp:ID[:TURNS]").alias("a"),
			boolFlag(&o.edit, "edit", "write the request in an editor, beginning with the words and what is piped in").alias("e"),
			boolFlag(&o.noEdit, "no-edit", "start no editor where there is nothing to ask").alias("E"),
			choiceFlag(&o.input, "input-format", "FORMAT", inputFormats(),
				"what stdin is: text, json (a task of {query, schema, context}) or stream-json (a line with a user's message)"),
		),
		grouped("who answers", slices.Concat(configFlags(&o.directives), []*option{
			stringFlag(&o.model, "model", "MODEL", "the model: provider/model or an alias").alias("m"),
			choiceFlag(&o.reasoning, "reasoning", "EFFORT", reasoningEfforts(), "how much the model reasons: none, low, medium, high").alias("effort"),
			toggled("tool", "t", "enable a tool that the config knows", true),
			toggled("no-tool", "T", "disable a tool", false),
			toggledAll("all-tools", "enable all tools that the config knows", true),
			toggledAll("no-tools", "disable all tools", false),
			choiceFlag(&o.role, "role", "ROLE", personRoles(),
				"what tools it may hold at most: main (everything), scheduled (what can run with nobody there), synthesis (only reading); a new "+
					"conversation keeps it"),
		})...),
		grouped("the answer",
			stringFlag(&o.schema, "schema", "JSON|@FILE", "a JSON schema that the answer must match; stdout is then the JSON document").alias("s", "json-schema"),
			thoughts("show-reasoning", "show the model's reasoning on stderr", "full"),
			thoughts("hide-reasoning", "show none of it, the default", "hidden"),
		),
		grouped("limits",
			durationFlag(&o.timeout, "timeout", "DURATION", "stop the run after DURATION"),
			intFlag(&o.maxTurns, "max-turns", "N", 0, "tool rounds in this turn"),
			tokensFlag(&o.maxTokens, "max-tokens", "tokens that the whole run may use, sub-agents included"),
			costFlag(&o.maxCost, "max-cost", "US dollars that the whole run may cost, sub-agents included").alias("max-budget-usd"),
		),
		grouped("sub-agents",
			sub("sub-calls", "allow sub-agents", true),
			sub("no-sub-calls", "allow no sub-agents", false),
			intFlag(&o.maxSub, "max-sub-calls", "N", 0, "sub-agent calls in this turn"),
			intFlag(&o.maxDepth, "max-depth", "N", 0, "levels of sub-agents below this conversation, at most 5"),
			tokensFlag(&o.subTokens, "max-sub-tokens", "tokens that the sub-agents of this turn may use together"),
			costFlag(&o.subCost, "max-sub-cost", "US dollars that they may cost together"),
		),
		grouped("recordings", tapeFlags(&o.tape)...),
		grouped("as other agents have it", slices.Concat([]*option{
			boolFlag(&o.print, "print", "headless: a new conversation unless another is named, and --non-interactive").alias("p"),
		}, headlessFlags(o))...),
	)
}
