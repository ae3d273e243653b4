package cli

import (
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
)

// configFlags are --cfg and --no-cfg: directives in the order of the command line.
func configFlags(p *[]profiles.Directive) []*command.Option {
	add := func(text string) error {
		*p = append(*p, profiles.Directive{Flag: "--cfg", Text: text})
		return nil
	}
	return []*command.Option{
		command.Call("cfg", "X", "config directive: NONE, WORKSPACE, key=value, key:=json, a file, builtin:NAME or a profile's name; in order", add).
			Alias("config", "c"),
		command.Call("no-cfg", "", "the same as --cfg NONE", func(string) error { return add("NONE") }),
	}
}

// targetMaybe has an optional conversation.
func targetMaybe(p *command.Maybe[string], name, arg, usage string) *command.Option {
	return command.StringMaybe(p, name, arg, workspace.IsTarget, usage)
}
