package profiles

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jp/profiles/ondisk"
)

func (w *world) link(target, name string) {
	w.t.Helper()
	if err := os.Symlink(target, w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

// each file adds its own name to a chain of tools, so that what was read shows.
func tool(name string) string { return "[conversation.tools." + name + "]\nsource = 'builtin'\n" }

func TestExtends(t *testing.T) {
	w := newWorld(t, map[string]string{
		"WS/.jp/config.toml":         "extends = ['base.toml', 'd/*.toml', 'none/*.toml']\n[conversation]\nmax_turns = 1\n" + tool("main"),
		"WS/.jp/base.toml":           "assistant.name = 'base'\nconversation.max_turns = 2\n" + tool("base"),
		"WS/.jp/d/b.toml":            "extends = ['../base.toml']\nassistant.name = 'b'\n" + tool("b"),
		"WS/.jp/d/a.toml":            "assistant.name = 'a'\n" + tool("a"),
		"WS/.jp/d/c.txt":             "not TOML",
		"WS/.jp/config/one.toml":     "extends = ['parts/[12].toml']\n" + tool("one"),
		"WS/.jp/config/parts/1.toml": tool("part1"), "WS/.jp/config/parts/2.toml": tool("part2"), "WS/.jp/config/parts/3.toml": tool("part3"),
		"USER/config.toml":      "extends = ['../OUT/*/x.toml', '~/home.toml', 'sub/../u.toml']\n",
		"OUT/[dir]/x.toml":      "extends = ['y*.toml']\n" + tool("x"),
		"OUT/[dir]/y.toml":      tool("y"),
		"OUT/home.toml":         tool("home"),
		"USER/u.toml":           tool("u"),
		"OUT/explicit.toml":     "extends = ['WS.toml']\n" + tool("explicit"),
		"OUT/WS.toml":           "extends = ['" + "../WS/.jp/config/one.toml" + "']\n",
		"WS/.jp/config/up.toml": "extends = ['../base.toml']\n",
	})
	r := w.resolve("one")
	if got, want := strings.Join(sortedKeys(r.Tools), " "), "a b base home main one part1 part2 u x y"; got != want {
		t.Errorf("tools = %s, want %s", got, want)
	}
	if r.Config.Assistant.Name != "base" {
		// d/a, then d/b's base, then d/b itself
		if r.Config.Assistant.Name != "b" {
			t.Errorf("name = %s, want b: files apply in sorted order", r.Config.Assistant.Name)
		}
	} else {
		t.Error("name = base, want b: an extended file applies before what extends it")
	}
	if r.Config.Conversation.MaxTurns != 1 {
		t.Errorf("max_turns = %d, want 1: the file itself applies last", r.Config.Conversation.MaxTurns)
	}
	var layers []string
	for _, l := range r.Layers {
		layers = append(layers, strings.TrimSpace(w.show(fmt.Sprintf("%s %s %s", l.Kind, l.File, l.Via))))
	}
	want := []string{
		"user OUT/[dir]/y.toml OUT/[dir]/x.toml", "user OUT/[dir]/x.toml USER/config.toml", "user OUT/home.toml USER/config.toml",
		"user USER/u.toml USER/config.toml", "user USER/config.toml",
		"workspace WS/.jp/base.toml WS/.jp/config.toml", "workspace WS/.jp/d/a.toml WS/.jp/config.toml",
		"workspace WS/.jp/base.toml WS/.jp/d/b.toml", "workspace WS/.jp/d/b.toml WS/.jp/config.toml", "workspace WS/.jp/config.toml",
		"file WS/.jp/config/parts/1.toml WS/.jp/config/one.toml", "file WS/.jp/config/parts/2.toml WS/.jp/config/one.toml", "file WS/.jp/config/one.toml",
	}
	if !slices.Equal(layers, want) {
		t.Errorf("layers:\n%s\nwant:\n%s", strings.Join(layers, "\n"), strings.Join(want, "\n"))
	}
	if r := w.resolve("NONE", "OUT/explicit.toml"); strings.Join(sortedKeys(r.Tools), " ") != "explicit one part1 part2" {
		t.Errorf("tools of an explicit path = %v", sortedKeys(r.Tools))
	}
	if r := w.resolve("NONE", ".jp/config/up.toml"); strings.Join(sortedKeys(r.Tools), " ") != "base" {
		t.Errorf("tools of a file that extends one above it = %v", sortedKeys(r.Tools))
	}
}

func TestProfileHash(t *testing.T) {
	w := newWorld(t, map[string]string{
		"WS/.jp/config/alone.toml": tool("x"), "WS/.jp/config/over.toml": "extends = ['alone.toml']", "OUT/alone.toml": tool("x"),
	})
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return hex.EncodeToString(h[:])
	}
	alone, over := sum(tool("x")), sum("extends = ['alone.toml']")
	for text, want := range map[string]string{
		"alone": alone, "OUT/alone.toml": alone, "over": sum(alone + "\n" + over + "\n"),
	} {
		if got := w.resolve("NONE", w.find(text)).ProfileHash; got != want {
			t.Errorf("hash of %s = %s, want %s", text, got, want)
		}
	}
	before := w.resolve("over").ProfileHash
	w.write("WS/.jp/config/alone.toml", tool("y"))
	if after := w.resolve("over").ProfileHash; after == before {
		t.Error("the hash stays when an extended file changes")
	}
}

func (w *world) find(text string) string {
	w.t.Helper()
	p, err := Find(w.src, w.cfg(text)[0].Text)
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Arg
}

func TestFileErrors(t *testing.T) {
	long := strings.Repeat("#", maxFileBytes)
	chain := map[string]string{}
	for i := range 12 { // each extends the next twice: 4096 files in the end
		chain[fmt.Sprintf("OUT/%d.toml", i)] = fmt.Sprintf("extends = ['%d.toml', './%d.toml']", i+1, i+1)
	}
	chain["OUT/12.toml"] = ""
	var patterns strings.Builder
	for i := range maxPatterns + 1 {
		fmt.Fprintf(&patterns, "'*.%d', ", i)
	}
	tests := []struct {
		name  string
		files map[string]string
		setup func(w *world)
		cfg   []string
		want  string
	}{
		{name: "cycle", files: map[string]string{"WS/.jp/config.toml": "\nextends = ['a.toml']", "WS/.jp/a.toml": "extends = [\n'b.toml']", "WS/.jp/b.toml": "extends = ['a.toml']"},
			want: "WS/.jp/b.toml:1: extends: WS/.jp/a.toml extends itself, over this file or directly"},
		{name: "itself", files: map[string]string{"OUT/a.toml": "extends = ['*.toml']"}, cfg: []string{"OUT/a.toml"},
			want: "OUT/a.toml:1: extends: OUT/a.toml extends itself, over this file or directly"},
		{name: "cycle over a link", files: map[string]string{"OUT/a.toml": "extends = ['l.toml']"}, setup: func(w *world) { w.link("a.toml", "OUT/l.toml") }, cfg: []string{"OUT/a.toml"},
			want: "OUT/a.toml:1: extends: OUT/l.toml extends itself, over this file or directly"},
		{name: "itself, once it is written", setup: func(w *world) {
			w.src.Instead = map[string][]byte{w.path("WS/.jp/config.toml"): []byte("extends = ['config.toml']")}
		}, want: "WS/.jp/config.toml:1: extends: WS/.jp/config.toml extends itself, over this file or directly"},
		{name: "itself over a link, once it is written", files: map[string]string{"OUT/a.toml": ""}, setup: func(w *world) {
			w.link("a.toml", "OUT/l.toml")
			w.src.Instead = map[string][]byte{w.path("OUT/a.toml"): []byte("extends = ['l.toml']")}
		}, cfg: []string{"OUT/a.toml"}, want: "OUT/a.toml:1: extends: OUT/l.toml extends itself, over this file or directly"},
		{name: "too many", files: chain, cfg: []string{"OUT/0.toml"}, want: "more than 256 config files are read"},
		{name: "too many patterns", files: map[string]string{"WS/.jp/config.toml": "extends = [" + patterns.String() + "]"},
			want: "WS/.jp/config.toml:1: extends: item 257 is one of more than 256 patterns"},
		{name: "missing", files: map[string]string{"WS/.jp/config.toml": "extends = [\n  'a.toml',\n]"},
			want: "WS/.jp/config.toml:2: extends: WS/.jp/a.toml: no such file or directory"},
		{name: "mistake in an extended file", files: map[string]string{"WS/.jp/config.toml": "extends = ['a.toml']", "WS/.jp/a.toml": "\n\nx = 1"},
			want: "WS/.jp/a.toml:3: x: unknown key"},
		{name: "syntax in an extended file", files: map[string]string{"WS/.jp/config.toml": "extends = ['a.toml']", "WS/.jp/a.toml": "\n\nx"},
			want: "WS/.jp/a.toml:3: not valid TOML: unexpected EOF; expected key separator '='"},
		{name: "text for a list", files: map[string]string{"WS/.jp/config.toml": "extends = 'a.toml'"},
			want: "WS/.jp/config.toml:1: extends: must be a list of text, not text"},
		{name: "number in the list", files: map[string]string{"WS/.jp/config.toml": "extends = ['a.toml',\n1]"},
			want: "WS/.jp/config.toml:2: extends: item 2 must be text, not a whole number"},
		{name: "empty", files: map[string]string{"WS/.jp/config.toml": "extends = ['']"}, want: "WS/.jp/config.toml:1: extends: item 1 is no path"},
		{name: "bad pattern", files: map[string]string{"WS/.jp/config.toml": "extends = ['[']"}, want: "WS/.jp/config.toml:1: extends: item 1 is no valid pattern"},
		{name: "folder", files: map[string]string{"WS/.jp/config.toml": "extends = ['a']", "WS/.jp/a/b.toml": ""}, want: "WS/.jp/config.toml:1: extends: WS/.jp/a: is a folder, not a file"},

		{name: "up and out", files: map[string]string{"WS/.jp/config.toml": "extends = ['../a.toml']", "WS/a.toml": ""},
			want: "WS/.jp/config.toml:1: extends: item 1 leads out of the workspace's .jp folder"},
		{name: "down, up and out", files: map[string]string{"WS/.jp/config.toml": "extends = ['d/../../a.toml']", "WS/a.toml": ""},
			want: "WS/.jp/config.toml:1: extends: item 1 leads out of the workspace's .jp folder"},
		{name: "pattern that leads out", files: map[string]string{"WS/.jp/config.toml": "extends = ['d/../../*.toml']", "WS/a.toml": ""},
			want: "WS/.jp/config.toml:1: extends: item 1 leads out of the workspace's .jp folder"},
		{name: "pattern with dots behind", files: map[string]string{"WS/.jp/config.toml": "extends = ['*/../../*.toml']", "WS/.jp/d/x.toml": "", "WS/a.toml": tool("a")}, want: "no error"},
		{name: "absolute", files: map[string]string{"WS/.jp/config.toml": "extends = ['/etc/a.toml']"},
			want: "WS/.jp/config.toml:1: extends: item 1 must be relative: the workspace's files stay in its .jp folder"},
		{name: "home", files: map[string]string{"WS/.jp/config.toml": "extends = ['~/a.toml']", "OUT/a.toml": ""},
			want: "WS/.jp/config.toml:1: extends: item 1 must be relative: the workspace's files stay in its .jp folder"},
		{name: "link out", files: map[string]string{"WS/.jp/config.toml": "extends = ['l.toml']", "OUT/a.toml": ""}, setup: func(w *world) { w.link("../../OUT/a.toml", "WS/.jp/l.toml") },
			want: "WS/.jp/config.toml:1: extends: WS/.jp/l.toml: leads out of the workspace's .jp folder"},
		{name: "folder linked out", files: map[string]string{"WS/.jp/config.toml": "extends = ['d/a.toml']", "OUT/a.toml": ""}, setup: func(w *world) { w.link("../../OUT", "WS/.jp/d") },
			want: "WS/.jp/config.toml:1: extends: WS/.jp/d/a.toml: leads out of the workspace's .jp folder"},
		{name: "glob over a folder linked out", files: map[string]string{"WS/.jp/config.toml": "extends = ['d/*.toml']", "OUT/a.toml": tool("a")}, setup: func(w *world) { w.link("../../OUT", "WS/.jp/d") },
			want: "no error"},
		{name: "user's glob over a link out of .jp", files: map[string]string{"USER/config.toml": "extends = ['../WS/.*/l.toml']", "OUT/a.toml": ""}, setup: func(w *world) { w.link("../../OUT/a.toml", "WS/.jp/l.toml") },
			want: "USER/config.toml:1: extends: WS/.jp/l.toml: leads out of the workspace's .jp folder"},
		{name: "link within", files: map[string]string{"WS/.jp/config.toml": "extends = ['l.toml']", "WS/.jp/d/a.toml": ""}, setup: func(w *world) { w.link("d/a.toml", "WS/.jp/l.toml") },
			want: "no error"},
		{name: "config.toml linked out", files: map[string]string{"OUT/a.toml": ""}, setup: func(w *world) { w.link("../../OUT/a.toml", "WS/.jp/config.toml") },
			want: "WS/.jp/config.toml: leads out of the workspace's .jp folder"},
		{name: "name linked out", files: map[string]string{"OUT/a.toml": "", "WS/.jp/config/b.toml": ""}, setup: func(w *world) { w.link("../../../OUT/a.toml", "WS/.jp/config/a.toml") }, cfg: []string{"a"},
			want: "WS/.jp/config/a.toml: leads out of the workspace's .jp folder"},
		{name: "explicit path linked out", files: map[string]string{"OUT/a.toml": ""}, setup: func(w *world) { w.link("../../OUT/a.toml", "WS/.jp/l.toml") }, cfg: []string{"NONE", "./.jp/l.toml"},
			want: "WS/.jp/l.toml: leads out of the workspace's .jp folder"},
		{name: "profile of the workspace that leads out", files: map[string]string{"WS/.jp/config/a.toml": "extends = ['../../../OUT/a.toml']", "OUT/a.toml": ""}, cfg: []string{"NONE", "WS/.jp/config/a.toml"},
			want: "WS/.jp/config/a.toml:1: extends: item 1 leads out of the workspace's .jp folder"},

		{name: "pipe", setup: func(w *world) { w.fifo("WS/.jp/config.toml") }, want: "WS/.jp/config.toml: is not a regular file"},
		{name: "pipe as a profile", setup: func(w *world) { w.fifo("OUT/p.toml") }, cfg: []string{"OUT/p.toml"}, want: "OUT/p.toml: is not a regular file"},
		{name: "device", cfg: []string{"@/dev/zero"}, want: "/dev/zero: is not a regular file"},
		{name: "folder as config", files: map[string]string{"WS/.jp/config.toml/x": ""}, want: "WS/.jp/config.toml: is a folder, not a file"},
		{name: "folder as a profile", files: map[string]string{"WS/.jp/config/a.toml/x": ""}, cfg: []string{"a"}, want: "WS/.jp/config/a.toml: is a folder, not a file"},
		{name: "largest", files: map[string]string{"OUT/a.toml": long}, cfg: []string{"OUT/a.toml"}, want: "no error"},
		{name: "too large", files: map[string]string{"OUT/a.toml": long + "#"}, cfg: []string{"OUT/a.toml"}, want: "OUT/a.toml: larger than 1024 KiB"},
		{name: "too large together", files: map[string]string{"OUT/a.toml": "extends = ['big/*.toml']", "OUT/big/1.toml": long, "OUT/big/2.toml": long, "OUT/big/3.toml": long,
			"OUT/big/4.toml": long, "OUT/big/5.toml": long, "OUT/big/6.toml": long, "OUT/big/7.toml": long, "OUT/big/8.toml": long}, cfg: []string{"OUT/a.toml"},
			want: "OUT/a.toml:1: extends: OUT/big/8.toml: more than 8 MiB of config is read"},
		{name: "home without HOME", files: map[string]string{"OUT/a.toml": "extends = ['~/b.toml']"}, setup: func(w *world) { w.src.Environ = nil }, cfg: []string{"OUT/a.toml"},
			want: "OUT/a.toml:1: extends: item 1 ~ is unknown: HOME is not set to an absolute path"},
		{name: "load path without HOME", files: map[string]string{"USER/config.toml": "config_load_paths = ['~/b']"}, setup: func(w *world) { w.src.Environ = nil },
			want: "USER/config.toml:1: config_load_paths: item 1 ~ is unknown: HOME is not set to an absolute path"},
		{name: "loop of links", setup: func(w *world) { w.link("b.toml", "OUT/a.toml"); w.link("a.toml", "OUT/b.toml") }, cfg: []string{"OUT/a.toml"},
			want: "OUT/a.toml: too many levels of symbolic links"},
		{name: "file as a folder", files: map[string]string{"WS/.jp/config/agent": ""}, cfg: []string{"agent/researcher"}, want: "no error"},
		{name: "no .jp folder", setup: func(w *world) { w.remove("WS/.jp") }, cfg: []string{"agent/researcher"}, want: "no error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.files)
			if tt.setup != nil {
				tt.setup(w)
			}
			r, err := Resolve(w.src, w.cfg(tt.cfg...), nil)
			got := w.failure(err)
			if tt.name == "too many" { // which file is one too many is of no interest
				got = got[strings.LastIndex(got, ": ")+2:]
			}
			if got != tt.want {
				t.Errorf("Resolve() = %s\nwant %s", got, tt.want)
			}
			if err == nil && strings.Contains(strings.Join(sortedKeys(r.Tools), " "), "a") && strings.Contains(tt.name, "pattern") {
				t.Errorf("tools = %v, from outside of .jp", sortedKeys(r.Tools))
			}
		})
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fifo(name string) {
	w.t.Helper()
	if err := syscall.Mkfifo(w.path(name), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	w := newWorld(t, map[string]string{"WS/.jp/config.toml": ""})
	if err := os.Chmod(w.path("WS/.jp/config.toml"), 0); err != nil {
		t.Fatal(err)
	}
	_, err := Resolve(w.src, nil, nil)
	if got, want := w.failure(err), "WS/.jp/config.toml: permission denied"; got != want {
		t.Errorf("Resolve() = %s, want %s", got, want)
	}
}

func TestLoadPaths(t *testing.T) {
	profile := func(name string) string { return "assistant.name = '" + name + "'" }
	files := map[string]string{
		"WS/.jp/config/p.toml": profile("workspace"), "USER/config/p.toml": profile("user"), "USER/config/u.toml": profile("user"),
		"WS/.jp/more/p.toml": profile("more"), "OUT/q/p.toml": profile("out"), "USER/near/p.toml": profile("near"), "WS/conf/p.toml": profile("conf"),
		"WS/.jp/more/m.toml": profile("more"), "OUT/q/o.toml": profile("out"), "USER/near/n.toml": profile("near"), "OUT/list.toml": "config_load_paths = ['q']",
		"WS/.jp/config/agent/researcher.toml": profile("own"),
	}
	tests := []struct {
		name, user, workspace string
		env, cfg              []string
		want                  string
	}{
		{name: "the workspace first", cfg: []string{"p"}, want: "workspace"},
		{name: "then the user", cfg: []string{"u"}, want: "user"},
		{name: "before the built-in ones", cfg: []string{"agent/researcher"}, want: "own"},
		{name: "built-in by its own name", cfg: []string{"builtin:agent/researcher"}, want: "researcher"},
		{name: "built in last", cfg: []string{"agent/planner"}, want: "planner"},
		{name: "user's, relative to its file", user: "config_load_paths = ['near']", cfg: []string{"n"}, want: "near"},
		{name: "user's, absolute and home", user: "config_load_paths = ['/nowhere', '~/q']", cfg: []string{"o"}, want: "out"},
		{name: "user's, into the workspace", user: "config_load_paths = ['../WS/.jp/more']", cfg: []string{"m"}, want: "more"},
		{name: "user's, after the workspace's", user: "config_load_paths = ['near', '../WS/.jp/config']", cfg: []string{"p"}, want: "near"},
		{name: "user's, before the built-in ones", user: "config_load_paths = ['near']", cfg: []string{"agent/researcher"}, want: "own"},
		{name: "user's, in place of its default", user: "config_load_paths = ['near']", cfg: []string{"u"},
			want: "--cfg: profile u: not found (it was looked for in WS/.jp/config, USER/near, the built-in profiles)"},
		{name: "of a file, after those that the workspace names", workspace: "config_load_paths = ['.jp/more']", cfg: []string{"./list.toml", "p"}, want: "more"},
		{name: "workspace's, relative to it", workspace: "config_load_paths = ['.jp/more']", cfg: []string{"p"}, want: "more"},
		{name: "workspace over user", user: "config_load_paths = ['near']", workspace: "config_load_paths = ['.jp/config']", cfg: []string{"p"}, want: "workspace"},
		{name: "variable", env: []string{`JP_CFG_CONFIG_LOAD_PATHS=:["conf"]`}, workspace: "config_load_paths = ['.jp/more']", cfg: []string{"p"}, want: "conf"},
		{name: "command line, from then on", cfg: []string{"p", `config_load_paths:=["~/q"]`, "p"}, want: "out"},
		{name: "command line, empty", cfg: []string{`config_load_paths:=[]`, "p"}, want: "--cfg: profile p: not found (it was looked for in the built-in profiles)"},
		{name: "after a reset", workspace: "config_load_paths = ['.jp/more']", cfg: []string{"agent/planner", "p"}, want: "more"},
		{name: "workspace's, up and out", workspace: "\nconfig_load_paths = ['.jp/config', 'conf']", want: "WS/.jp/config.toml:2: config_load_paths: item 2 leads out of the workspace's .jp folder"},
		{name: "workspace's, absolute", workspace: "config_load_paths = ['/etc']", want: "WS/.jp/config.toml:1: config_load_paths: item 1 leads out of the workspace's .jp folder"},
		{name: "workspace's, home", workspace: "config_load_paths = ['~/q']", want: "WS/.jp/config.toml:1: config_load_paths: item 1 leads out of the workspace's .jp folder"},
		{name: "workspace's, dots", workspace: "config_load_paths = ['.jp/../conf']", want: "WS/.jp/config.toml:1: config_load_paths: item 1 leads out of the workspace's .jp folder"},
		{name: "empty entry", workspace: "config_load_paths = ['']", want: "WS/.jp/config.toml:1: config_load_paths: item 1 must not be empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, files)
			w.write("USER/config.toml", tt.user)
			w.write("WS/.jp/config.toml", tt.workspace)
			w.src.Dir = w.path("OUT")
			w.src.Environ = append(w.src.Environ, tt.env...)
			r, err := Resolve(w.src, w.cfg(tt.cfg...), nil)
			got := w.failure(err)
			if err == nil {
				got = r.Config.Assistant.Name
			}
			if got != tt.want {
				t.Errorf("Resolve(%q) = %s, want %s", tt.cfg, got, tt.want)
			}
			if err != nil {
				return
			}
			set := len(r.Origin("config_load_paths")) > 0
			for _, v := range r.Keys() {
				if v.Key == "config_load_paths" && (v.Default == set || (v.Value != nil) != set || (v.Origin != Position{}) != set) {
					t.Errorf("Keys: config_load_paths = %+v, set: %v", v, set)
				}
			}
		})
	}
}

func TestFindAndNames(t *testing.T) {
	w := newWorld(t, map[string]string{
		"WS/.jp/config/p.toml": "", "WS/.jp/config/agent/planner.toml": "", "WS/.jp/config/x.txt": "", "WS/.jp/config/d.toml/inner.toml": "",
		"WS/.jp/config/NONE.toml": "", "WS/.jp/config/a=b.toml": "", "WS/.jp/config/two.toml.toml": "", "WS/.jp/config/a\\b.toml": "",
		"USER/config/p.toml": "", "USER/config/deep/er/u.toml": "", "OUT/o.toml": "", "WS/.jp/more/deep/m.toml": "",
	})
	w.link("p.toml", "WS/.jp/config/l.toml")
	w.link("../../../OUT/o.toml", "WS/.jp/config/out.toml")
	w.link("../more", "WS/.jp/config/folder")
	w.link("..", "WS/.jp/more/deep/up")
	w.link("../../../OUT", "WS/.jp/config/outer")
	w.link("../../OUT", "USER/config/outer")
	w.link("nowhere", "USER/config/dangling.toml")
	w.fifo("USER/config/pipe.toml")
	list, err := Names(w.src)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		s := fmt.Sprintf("%s %s %s", p.Name, w.show(p.Arg), p.Source)
		if p.Shadowed {
			s += " shadowed"
		}
		got = append(got, s)
		if found, err := Find(w.src, p.Name); !p.Shadowed && (err != nil || found != p) {
			t.Errorf("Find(%s) = %v, %v, want %v", p.Name, found, err, p)
		}
		if found, err := Find(w.src, p.Arg); err != nil || found.Arg != p.Arg || found.Source != p.Source {
			t.Errorf("Find(%s) = %v, %v, want %v", p.Arg, found, err, p)
		}
	}
	want := []string{
		"agent/planner WS/.jp/config/agent/planner.toml workspace", "agent/planner builtin:agent/planner builtin shadowed",
		"agent/researcher builtin:agent/researcher builtin", "agent/reviewer builtin:agent/reviewer builtin",
		"d.toml/inner WS/.jp/config/d.toml/inner.toml workspace", "deep/er/u USER/config/deep/er/u.toml user",
		"folder/deep/m WS/.jp/config/folder/deep/m.toml workspace", "l WS/.jp/config/l.toml workspace", "p WS/.jp/config/p.toml workspace", "p USER/config/p.toml user shadowed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Names:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p, err := Find(w.src, w.path("OUT/o.toml")); err != nil || p.Source != "file" {
		t.Errorf("Find(OUT/o.toml) = %v, %v", p, err)
	}
	for _, text := range []string{"NONE", "WORKSPACE", "assistant.model=x"} {
		if _, err := Find(w.src, text); err == nil || err.Error() != "profile: must be a path, builtin:<name> or the name of a profile" {
			t.Errorf("Find(%s) = %v", text, err)
		}
	}
	w.write("WS/.jp/config.toml", "x = 1")
	if _, err := Names(w.src); w.failure(err) != "WS/.jp/config.toml:1: x: unknown key" {
		t.Errorf("Names with a broken config = %v", err)
	}
	if list, err := Names(Sources{}); err != nil || len(list) != len(Builtins()) {
		t.Errorf("Names(Sources{}) = %v, %v", list, err)
	}
}

func TestFindWorkspace(t *testing.T) {
	w := newWorld(t, map[string]string{"WS/a/b/x": "", "WS/a/.jp": "a file is no workspace", "OUT/x": ""})
	for _, dir := range []string{"WS", "WS/.jp", "WS/a", "WS/a/b"} {
		if got, err := FindWorkspace(w.path(dir)); err != nil || got != w.path("WS") {
			t.Errorf("FindWorkspace(%s) = %s, %v", dir, w.show(got), err)
		}
	}
	for dir, want := range map[string]string{
		"OUT":     "folder OUT: no workspace here or above",
		"OUT/x":   "folder OUT/x: is not a folder",
		"OUT/y":   "folder OUT/y: no such file or directory",
		"OUT/x/y": "folder OUT/x/y: not a directory",
	} {
		if _, err := FindWorkspace(w.path(dir)); err == nil || w.show(err.Error()) != want {
			t.Errorf("FindWorkspace(%s) = %v, want %s", dir, err, want)
		}
	}
}

func TestUserDir(t *testing.T) {
	tests := []struct {
		environ []string
		want    string
	}{
		{nil, ""},
		{[]string{"HOME=/h"}, "/h/.config/jp"},
		{[]string{"HOME=/h", "XDG_CONFIG_HOME=/x"}, "/x/jp"},
		{[]string{"HOME=/h", "XDG_CONFIG_HOME=x"}, "/h/.config/jp"},
		{[]string{"HOME=h"}, ""},
	}
	for _, tt := range tests {
		if got := UserDir(tt.environ); got != filepath.FromSlash(tt.want) {
			t.Errorf("UserDir(%q) = %q, want %q", tt.environ, got, tt.want)
		}
	}
}

func TestWorkingDirectory(t *testing.T) {
	w := newWorld(t, map[string]string{"OUT/p.toml": tool("x")})
	t.Chdir(w.path("OUT"))
	r, err := Resolve(Sources{Workspace: "../WS", Files: ondisk.FS("../WS")}, []Directive{{Flag: "--cfg", Text: "p.toml"}, {Flag: "--cfg", Text: `config_load_paths:=[]`}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.ProfileArg != w.path("OUT/p.toml") {
		t.Errorf("ProfileArg = %s, want %s", r.ProfileArg, w.path("OUT/p.toml"))
	}
}

// Nothing stays open: a long-lived program resolves many times.
func TestOpenFiles(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(entries)
	}
	w := newWorld(t, map[string]string{"WS/.jp/config.toml": "extends = ['*/x.toml']", "WS/.jp/d/x.toml": ""})
	broken := w.cfg("./.jp/config.toml", "nobody")
	w.resolve("agent/planner")
	before := count()
	for range 20 {
		w.resolve("agent/planner")
		if _, err := Resolve(w.src, broken, nil); err == nil {
			t.Fatal("no error")
		}
		if _, err := Names(w.src); err != nil {
			t.Fatal(err)
		}
		if _, err := Find(w.src, "nobody"); err == nil {
			t.Fatal("no error")
		}
	}
	// The garbage collector closes what was forgotten, at its own time: a few may be gone, not all.
	if after := count(); after > before+5 {
		t.Errorf("%d files are open, %d before", after, before)
	}
}
