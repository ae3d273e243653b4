package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
)

// headless has the flags that other agent programs have in their headless mode. A flag with the
// same meaning as a flag of jp is an alias of it; the others are here (docs/headless.md).
type headless struct {
	resume  command.Maybe[string]
	recent  bool
	fork    bool
	allowed []string // each may hold several names; nil = no --allowedTools
	denied  []string
	systems []string // each must be ""
	prompts []string // sections that this run adds to the system prompt

	partial     bool // write the parts of a message as they come
	replayUsers bool // write the messages of a client again
	mode        command.Maybe[string]
	sources     command.Maybe[string]
	prompt      command.Maybe[string] // tool that answers questions of permission: promptStdio

	only []string // the names in allowed; nil = no --allowedTools
}

// permissionMode refuses a mode that would permit what the definitions of the tools do not.
func permissionMode(mode string) error {
	if mode != stream.ModeDefault && mode != stream.ModeDontAsk {
		return fmt.Errorf("permission mode %q: jp has only %s and %s; the definition of a tool says what it may do without a question", mode, stream.ModeDefault, stream.ModeDontAsk)
	}
	return nil
}

// headless reports whether a script or a client started the run, so that no person can be asked.
func (o *options) headless() bool { return o.print || o.input == inputStream }

func headlessFlags(o *options) []*command.Option {
	h := &o.heads
	allowed := &command.Option{Name: "allowedTools", Short: []string{"allowed-tools"}, Arg: "NAMES",
		Usage: "of the tools that the config enables, keep only these; commas or spaces between names"}
	allowed.Take = func(s string, _ bool) error {
		h.allowed = append(h.allowed, s)
		return nil
	}
	return []*command.Option{
		command.String(&h.resume, "resume", "TARGET", "the same as --id TARGET, for a conversation that exists").Alias("r"),
		command.Bool(&h.recent, "continue", "the same as --id recent"),
		command.Bool(&h.fork, "fork-session", "with --resume or --continue: the same as --fork"),
		allowed,
		command.List(&h.denied, "disallowedTools", "NAMES", "the same as --no-tool NAME for each").Alias("disallowed-tools"),
		command.List(&h.systems, "system-prompt", "TEXT", "only \"\" is allowed, as some clients send it; it changes nothing"),
		command.Texts(&h.prompts, "append-system-prompt", "TEXT", "add TEXT to the system prompt, in this run only"),
		command.Bool(&h.partial, "include-partial-messages", "with --output-format stream-json: also print the parts of each message as they come"),
		command.Bool(&h.replayUsers, "replay-user-messages", "with --input-format and --output-format stream-json: repeat the messages of stdin on stdout"),
		command.String(&h.sources, "setting-sources", "NAMES", "some of user, project, local; without project, AGENTS.md and CLAUDE.md of the workspace are not read"),
		command.String(&h.mode, "permission-mode", "MODE", "default or dontAsk; with dontAsk jp does not ask the client either"),
		command.String(&h.prompt, "permission-prompt-tool", "stdio", "with --input-format and --output-format stream-json: the client answers for tools that ask"),
	}
}

// translate turns flags of other agent programs into flags of jp.
func (o *options) translate() error {
	h := o.heads
	if err := command.OnlyOne(map[string]bool{
		"--id": o.id.Set, "--new": o.fresh, "--resume": h.resume.Set, "--continue": h.recent,
	}, "--resume", "--continue", "--id", "--new"); err != nil && (h.resume.Set || h.recent) {
		return err
	}
	switch {
	case h.resume.Set:
		if !workspace.IsTarget(h.resume.Value) { // "new" is not a target here
			_, err := convstore.ParseID(h.resume.Value)
			return err
		}
		o.id = h.resume
	case h.recent:
		o.id = command.Given("recent")
	case h.fork:
		return exit.Usagef("--fork-session: needs --resume or --continue").WithHint("--fork forks this terminal's active conversation")
	}
	if o.headless() && !o.id.Set && !o.fork.Set && !o.rootID.Set {
		o.fresh = true // a script does not depend on the active conversation
	}
	if strings.Join(h.systems, "") != "" {
		return exit.Usagef(`--system-prompt: only "" is allowed`).WithHint("%s", foreignFlag("system-prompt"))
	}
	if h.mode.Set {
		if err := permissionMode(h.mode.Value); err != nil {
			return exit.Usagef("--permission-mode: %v", err)
		}
	}
	if h.prompt.Set && h.prompt.Value != promptStdio {
		return exit.Usagef("--permission-prompt-tool %q: only %s, the client, is asked here", h.prompt.Value, promptStdio)
	}
	for _, name := range h.sourceNames() {
		if !slices.Contains([]string{"user", "project", "local"}, name) {
			return exit.Usagef("--setting-sources: %q is none of user, project, local", name)
		}
	}
	if h.fork {
		if o.fork.Set {
			return command.ErrMixed("--fork", "--fork-session")
		}
		o.fork = command.Given(-1)
	}
	names, err := enabled.NamesIn("--disallowedTools", h.denied)
	if err != nil {
		return err
	}
	for _, name := range names {
		o.toggles = append(o.toggles, run.Toggle{Flag: "--disallowedTools", Name: name})
	}
	if h.allowed != nil {
		o.heads.only, err = enabled.NamesIn("--allowedTools", h.allowed)
	}
	return err
}

func (h headless) sourceNames() []string {
	return strings.FieldsFunc(h.sources.Value, func(r rune) bool { return r == ',' || r == ' ' })
}

// ForeignHint returns the hint for a flag that the command c does not have; c is nil before the
// command.
func ForeignHint(c *cli.Command, flag string) string {
	switch {
	case c != nil && c.Name == "query":
		return foreignFlag(flag)
	case c == nil && (flag == "-p" || flag == "--print"):
		return "headless use is jp query " + flag
	}
	return ""
}

// foreignFlag returns what jp has in place of a flag of other agent programs, "" for any other
// flag.
func foreignFlag(spelling string) string {
	switch strings.TrimLeft(spelling, "-") {
	case "dangerously-skip-permissions", "allow-dangerously-skip-permissions", "yolo", "full-auto", "approval-mode":
		return "run and detached in its definition say what a tool may do without a question; no flag changes that"
	case "system-prompt", "system-prompt-file", "agent", "agents":
		return "a profile holds prompt, model and tools of an agent: --cfg NAME"
	case "tools":
		return "--allowedTools keeps only what it names of the tools that the config enables"
	case "add-dir":
		return "what a tool can reach is in its access.fs"
	case "session-id":
		return "jp makes the ids: session_id in json and stream-json; --resume ID continues a conversation"
	case "mcp-config", "strict-mcp-config":
		return "[providers.mcp.NAME] in the user's config.toml, or .mcp.json, names MCP servers; a tool with source = \"mcp.NAME\" uses one"
	case "settings", "managed-settings":
		return "jp reads its own config: --cfg KEY=VALUE or --cfg FILE sets it for a conversation"
	case "fallback-model":
		return "--cfg 'assistant.model:=[\"MODEL\", \"OTHER\"]' asks the other one where the first does not answer"
	case "thinking", "max-thinking-tokens":
		return "--reasoning EFFORT says how much the model reasons"
	case "plugin-dir", "plugin-dir-no-mcp":
		return "there are no plugins here; skills are in .jp/skills"
	case "resume-session-at", "resume-drops-turn":
		return "--resume ID --fork=N continues in a fork with the last N turns"
	case "debug", "debug-file", "debug-to-stderr":
		return "-v prints more on stderr, --log-file PATH writes a log"
	}
	return ""
}
