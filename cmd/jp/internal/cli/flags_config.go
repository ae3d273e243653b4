package cli

import "jp/profiles"

// configFlags are --cfg and --no-cfg: directives in the order of the command line.
func configFlags(p *[]profiles.Directive) []*option {
	add := func(text string) error {
		*p = append(*p, profiles.Directive{Flag: "--cfg", Text: text})
		return nil
	}
	return []*option{
		callFlag("cfg", "X", "config directive: NONE, WORKSPACE, key=value, key:=json, a file, builtin:NAME or a profile's name; in order", add).
			alias("config", "c"),
		callFlag("no-cfg", "", "the same as --cfg NONE", func(string) error { return add("NONE") }),
	}
}

// targetMaybe has an optional conversation.
func targetMaybe(p *maybe[string], name, arg, usage string) *option {
	return stringMaybe(p, name, arg, isTarget, usage)
}
