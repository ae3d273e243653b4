package tools

import (
	"slices"
	"strings"
)

// Key is a key in the table of a tool.
type Key struct {
	Name    string // dotted
	Kind    string // kind of its values
	Default any    // of a definition that does not have it; nil = none
	Doc     string // one line
}

// ForAll reports whether '*', which holds for all tools at once, can have the key too.
func (k Key) ForAll() bool {
	first, _, _ := strings.Cut(k.Name, ".")
	return k.Name != keyAccessJP && slices.Contains(defaultsLayer.keys, first)
}

// Keys returns the keys of a tool, sorted.
func Keys() []Key {
	return []Key{
		{keyAccessFS, "a list of { path, mode }", nil, "files that it can reach, mode ro or rw; not set: the workspace, read-only, but for built-in tools that write"},
		{keyAccessJP, "a list of text", nil, "of a local tool: the commands of jp that it may run: fork, grep, ls, print, query"},
		{keyCommand, "text or a table", nil, "of a local tool: program with arguments, { program, args }, or { script } for a shell; {{tool.arguments.NAME}} is one argument"},
		{keyDescription, "text", nil, "for the model, which chooses the tool by it"},
		{keyDetached, "text or a table", string(DetachedDeny), "if nobody can be asked: deny, auto (yes) or defaults (the question's own); in a table for run, deliver (of result) and tool"},
		{keyEnable, "true or false", true, "whether the agent has the tool"},
		{keyEnv, "a list of text", []any{}, "variables that it gets beside PATH, HOME, LANG and a few"},
		{keyName, "text", nil, "name, in a file of .jp/tools"},
		{keyNetwork, "text", string(NetworkNone), "none or any"},
		{keyOptions, "a table", nil, "values for {{tool.options.NAME}} of its command"},
		{keyOutput, "text", string(OutputText), "of a local tool: text, or json: its stdout is { type = success, content } or { type = error, message }"},
		{keyParallel, "true or false", true, "whether it may run together with other calls of one reply"},
		{keyParameters, "a table", nil, "its arguments: type, required, description and so on of each"},
		{keyResult, "text", string(ResultUnattended), "unattended, or ask: a person sees the result before the model does"},
		{keyRun, "text", string(RunAsk), "ask, unattended or deny"},
		{keySandbox, "text", string(SandboxAuto), "auto, require or off: how much of its confinement the system must enforce"},
		{keySizeThreshold, "a size", "256KB", "largest result; what is more is cut, or read in parts"},
		{keySource, "text", nil, "builtin, local, delegation, conversation, interactive or mcp.SERVER; a built-in tool needs none"},
		{keyStdin, "text", string(StdinNone), "of a local tool: none, or json: it reads an object with tool (name, arguments, options) and context"},
		{keyTimeout, "a duration", "60s", "longest time of a call, for the whole process tree; tools that start agents have none"},
	}
}
