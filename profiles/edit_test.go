package profiles

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	for _, tt := range []struct {
		name, in, set, want string
		line                int
	}{
		{"nothing", "", "assistant.model=a/b", "[assistant]\nmodel = \"a/b\"\n", 2},
		{"only a comment", "# mine\n", "assistant.model=a/b", "# mine\n\n[assistant]\nmodel = \"a/b\"\n", 4},
		{"value", "# c\n[assistant] # who\n  model = 'x/y'   # why\nname = \"n\"\n", "assistant.model=a/b", "# c\n[assistant] # who\n  model = \"a/b\"   # why\nname = \"n\"\n", 3},
		{"in its table", "[assistant]\n  name = \"n\"  # c\n\n# next\n[style]\n", "assistant.model=a/b", "[assistant]\n  name = \"n\"  # c\n  model = \"a/b\"\n\n# next\n[style]\n", 3},
		{"in its empty table", "[assistant] # who\n[style]\n", "assistant.model=a/b", "[assistant] # who\nmodel = \"a/b\"\n[style]\n", 2},
		{"without a last line end", "[assistant]\nname='n'", "assistant.model=a/b", "[assistant]\nname='n'\nmodel = \"a/b\"\n", 3},
		{"dotted", "assistant.name = 'n'\nstyle.reasoning.display = 'full'\n", "assistant.model=a/b", "assistant.name = 'n'\nassistant.model = \"a/b\"\nstyle.reasoning.display = 'full'\n", 2},
		{"dotted, value", "a.b = 1\n", "a.b=2", "", 0},
		{"dotted in a table", "[conversation]\ntools.fs_read_file.run = 'ask'\n", "conversation.tools.fs_read_file.enable:=false", "[conversation]\ntools.fs_read_file.run = 'ask'\ntools.fs_read_file.enable = false\n", 3},
		{"dotted before a table below it", "assistant.name = 'n'\n\n[assistant.request]\nmax_retries = 1\n", "assistant.model=a/b", "assistant.name = 'n'\nassistant.model = \"a/b\"\n\n[assistant.request]\nmax_retries = 1\n", 2},
		{"dotted in a table before one below it", "[conversation]\ntools.x.run = 'ask'\n[conversation.tools.x.parameters.y]\ntype = 'string'\n", "conversation.tools.x.enable:=false",
			"[conversation]\ntools.x.run = 'ask'\ntools.x.enable = false\n[conversation.tools.x.parameters.y]\ntype = 'string'\n", 3},
		{"at the top, beside another", "# of all\nextends = []\n[assistant]\nname = 'n'\n", `config_load_paths:=["x"]`, "# of all\nextends = []\nconfig_load_paths = [\"x\"]\n[assistant]\nname = 'n'\n", 3},
		{"inline", "assistant = { name = 'n' } # c\n", "assistant.model=a/b", "assistant = { name = 'n', model = \"a/b\" } # c\n", 1},
		{"inline, value", "assistant = { model = 'x/y' , name = 'n' }\n", "assistant.model=a/b", "assistant = { model = \"a/b\" , name = 'n' }\n", 1},
		{"inline, empty", "assistant = {}\n", "assistant.model=a/b", "assistant = { model = \"a/b\" }\n", 1},
		{"inline, deep", "[conversation.tools]\nfs_read_file = { access = {} }\n", "conversation.tools.fs_read_file.access.fs:=[{\"path\":\".\"}]", "[conversation.tools]\nfs_read_file = { access = { fs = [{ path = \".\" }] } }\n", 2},
		{"a new table", "[assistant]\nmodel = 'x/y'\n\n\n", "delegation.max_depth=2", "[assistant]\nmodel = 'x/y'\n\n[delegation]\nmax_depth = 2\n", 5},
		{"beside a list of tables", "[[assistant.system_prompt_sections]]\ncontent = 'x'\n", "assistant.model=a/b", "[[assistant.system_prompt_sections]]\ncontent = 'x'\n\n[assistant]\nmodel = \"a/b\"\n", 5},
		{"a list", "[delegation]\nprofiles = [ # which\n  'a', # one\n]\nmax_depth = 1\n", `delegation.profiles:=["a", "b"]`, "[delegation]\nprofiles = [\"a\", \"b\"]\nmax_depth = 1\n", 2},
		{"at the top", "[assistant]\n", `config_load_paths:=["x"]`, "config_load_paths = [\"x\"]\n[assistant]\n", 1},
		{"the defaults of tools", "", "conversation.tools.'*'.run=ask", "[conversation.tools.'*']\nrun = \"ask\"\n", 2},
		{"a table", "", `conversation.tools.x:={"run":"ask"}`, "[conversation.tools]\nx = { run = \"ask\" }\n", 2},
		{"text with all sorts", "", "assistant.system_prompt=a\"b\\U0000000A\n\tü\x01", "[assistant]\nsystem_prompt = \"a\\\"b\\\\U0000000A\\n\\tü\\u0001\"\n", 2},
		{"other line ends", "[assistant]\r\nname = 'n'\r\n", "assistant.model=a/b", "[assistant]\r\nname = 'n'\r\nmodel = \"a/b\"\r\n", 3},
		{"byte order mark", "\ufeff[assistant]\nname = 'n'\n", "assistant.model=a/b", "\ufeff[assistant]\nname = 'n'\nmodel = \"a/b\"\n", 3},
		{"last in a list of tables of the same name", "[conversation.tools.x]\nrun = 'ask'\n[conversation.tools.x.parameters.y]\ntype = 'string'\n", "conversation.tools.x.run=deny",
			"[conversation.tools.x]\nrun = \"deny\"\n[conversation.tools.x.parameters.y]\ntype = 'string'\n", 2},
	} {
		e, err := Edit([]byte(tt.in), Directive{Flag: "config set", Text: tt.set})
		out, line := e.Text, e.Line
		if tt.want == "" {
			if err == nil {
				t.Errorf("%s: %q, want an error", tt.name, out)
			}
			continue
		}
		if err != nil || string(out) != tt.want || line != tt.line {
			t.Errorf("%s: %v, line %d\n%s\nwant line %d\n%s", tt.name, err, line, out, tt.line, tt.want)
		}
	}
	for _, tt := range []struct{ in, set, want string }{
		{"", "assistant.modl=x", "config set: assistant.modl: unknown key"},
		{"", "NONE", "config set: must be key=value or key:=json"},
		{"", "assistant.model", "config set: assistant.model: must be key=value or key:=json"},
		{"", "sk-secret", "config set: must be key=value or key:=json"},
		{"", "delegation.max_depth=x", "config set: delegation.max_depth: must be a whole number"},
		{"[conversation.tools.x]\nrun='ask'\n", `conversation.tools.x:={"run":"deny"}`, "conversation.tools.x: is a table"},
		{"x = = 1\n", "assistant.model=a/b", "not valid TOML: "},
		{"assistant = 1\n", "assistant.model=a/b", "assistant.model: lies in what is no table"},
	} {
		if _, err := Edit([]byte(tt.in), Directive{Flag: "config set", Text: tt.set}); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("Edit(%q, %s) = %v, want %s", tt.in, tt.set, err, tt.want)
		}
	}
}

func TestUnset(t *testing.T) {
	const tool = "[conversation.tools.x] # mine\nrun = 'ask' # why\n\n# of y\n[conversation.tools.y]\nrun = 'ask'\n[conversation.tools.x.parameters.p]\ntype = 'string'\n"
	for _, tt := range []struct{ name, in, key, want string }{
		{"a value", "# c\n[assistant]\nmodel = 'a/b' # c\nname = 'n'\n", "assistant.model", "# c\n[assistant]\nname = 'n'\n"},
		{"the last of a table", "[assistant]\nmodel = 'a/b'", "assistant.model", "[assistant]\n"},
		{"dotted", "assistant.model = 'a/b'\nassistant.name = 'n'\n", "assistant.model", "assistant.name = 'n'\n"},
		{"over lines", "[delegation]\nprofiles = [ # which\n  'a', # one\n]\nmax_depth = 1\n", "delegation.profiles", "[delegation]\nmax_depth = 1\n"},
		{"a table", tool, "conversation.tools.x", "\n# of y\n[conversation.tools.y]\nrun = 'ask'\n"},
		{"a list of tables", "[[assistant.system_prompt_sections]]\ncontent = 'x'\n[assistant.request]\nmax_retries = 1\n", "assistant.system_prompt_sections", "[assistant.request]\nmax_retries = 1\n"},
		{"no setting", "[assistant]\nmodl = 'a/b'\n", "assistant.modl", "[assistant]\n"},
		{"other line ends", "\ufeff[assistant]\r\nname = 'n'\r\nmodel = 'a/b'\r\n", "assistant.name", "\ufeff[assistant]\r\nmodel = 'a/b'\r\n"},
		{"inline", "assistant = { model = 'a/b' } # c\n", "assistant.model", "assistant = {} # c\n"},
		{"the first of an inline table", "assistant = { model = 'a/b', name = 'n' }\n", "assistant.model", "assistant = { name = 'n' }\n"},
		{"the last of an inline table", "assistant = { model = 'a/b', parameters = { reasoning = 'low' } }\n", "assistant.parameters.reasoning", "assistant = { model = 'a/b', parameters = {} }\n"},
		{"a table in dotted keys", "assistant = { name = 'n', request.max_retries = 1, model = 'a/b', request.max_response_bytes = 1 }\n", "assistant.request", "assistant = { name = 'n', model = 'a/b' }\n"},
		{"the only table", "# c\n\n[conversation.tools.x]\nrun = 'ask'\n", "conversation.tools.x", "# c\n"},
		{"the only key of a table without a header", "[conversation]\ncompact.mode = 'off'\n", "conversation.compact.mode", "[conversation]\n"},
		{"the only dotted key", "assistant.parameters.reasoning = 'low'\n", "assistant.parameters.reasoning", ""},
		{"the only list of tables", "[[assistant.system_prompt_sections]]\ncontent = 'x'\n", "assistant.system_prompt_sections", ""},
		{"not there", "[assistant]\n", "assistant.model", "assistant.model: is not set in this file"},
		{"misspelled", "[assistant]\n", "assistant.modl", "assistant.modl: is not set in this file (did you mean assistant.model?)"},
		{"no key", "", "a b", "a b: is no key"},
		{"no TOML", "x = = 1\n", "x", "not valid TOML: expected value but found '=' instead"},
	} {
		e, err := Unset([]byte(tt.in), tt.key)
		got := string(e.Text)
		if bad := (*Error)(nil); errors.As(err, &bad) {
			bad.Line = 0
			if got = bad.Error(); bad.Hint != "" {
				got += " (" + bad.Hint + ")"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzEdit: what is set is set, whatever the file, and nothing else changes; every comment is still
// there.
func FuzzEdit(f *testing.F) {
	for _, src := range tomlSeeds() {
		f.Add(src, "a.b", "x")
	}
	for _, key := range []string{"run", "parameters.path.type", "'*'", "a.'b c'.d", "command"} {
		f.Add("[conversation.tools.x]\nrun = 'ask' # c\n[conversation.tools.x.parameters]\npath = {}\n", key, "new\n\"'\\")
	}
	f.Fuzz(func(t *testing.T, src, key, value string) {
		set := "conversation.tools.x." + key + "=" + value
		edited, err := Edit([]byte(src), Directive{Flag: "config set", Text: set})
		out, line := edited.Text, edited.Line
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Msg == "" || strings.ContainsAny(e.Error(), "\n\r\x1b") {
				t.Fatalf("Edit(%q, %q) = %#v", src, set, err)
			}
			return
		}
		if n := 1 + bytes.Count(out, []byte("\n")); line < 1 || line > n {
			t.Fatalf("Edit(%q, %q) = %q, on line %d of %d", src, set, out, line, n)
		}
		again, err := Edit(out, Directive{Flag: "config set", Text: set})
		if err != nil || !bytes.Equal(again.Text, out) {
			t.Fatalf("Edit(%q, %q) = %q, then %q, %v", src, set, out, again.Text, err)
		}
	})
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"space", "\n \n\n", ""},
		{"comments", "\n  # a\n\n\n#b\n", "# a\n\n#b\n"},
		{"pairs", "a=1\n  b   =   'x'#c\n\"d\" . e={ f=1 }   # g", "a = 1\nb = 'x' #c\n\"d\".e = { f=1 }   # g\n"},
		{"tables", "[ a . b ]\nx=1\n[c]#d\n\n\n\n# e\n[[ f ]]\n", "[a.b]\nx = 1\n\n[c] #d\n\n# e\n[[f]]\n"},
		{"a comment below a pair", "x=1\n# of y\n[y]\n", "x = 1\n\n# of y\n[y]\n"},
		{"a comment apart", "x=1\n\n# apart\n\n# of y\n[y]\n", "x = 1\n\n# apart\n\n# of y\n[y]\n"},
		{"long values", "x=[\n  1, # one\n\n\n  2,\n]\ny='''\n\n\n  a \n'''\n", "x = [\n  1, # one\n\n\n  2,\n]\ny = '''\n\n\n  a \n'''\n"},
		{"line ends", "\ufeffx=1\r\n\r\n\r\ny=2 \r\n", "x = 1\n\ny = 2\n"},
	} {
		out, err := Format([]byte(tt.in))
		if err != nil || string(out) != tt.want {
			t.Errorf("%s: %v\n%q\nwant\n%q", tt.name, err, out, tt.want)
		}
	}
	if _, err := Format([]byte("a = \nb")); err == nil || !strings.HasPrefix(err.Error(), "not valid TOML: ") {
		t.Errorf("Format of no TOML = %v", err)
	}
}

// FuzzFormat: the same settings, the same comments, and a second time nothing changes.
func FuzzFormat(f *testing.F) {
	for _, s := range tomlSeeds() {
		f.Add(s)
	}
	f.Add("# a\n[ x . 'y' ] # b\n z = [ # c\n 1 ]\n\n\n# d")
	f.Fuzz(func(t *testing.T, src string) {
		out, err := Format([]byte(src))
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Msg == "" || strings.ContainsAny(e.Error(), "\n\r\x1b") {
				t.Fatalf("Format(%q) = %#v", src, err)
			}
			if _, _, bad := parseTOML([]byte(src)); bad == nil {
				t.Fatalf("Format(%q) = %v, which is TOML", src, err)
			}
			return
		}
		if again, err := Format(out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("Format(%q) = %q, then %q, %v", src, out, again, err)
		}
		if strings.Count(src, "#") != bytes.Count(out, []byte("#")) {
			t.Fatalf("Format(%q) = %q", src, out)
		}
	})
}
