package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
)

// TestShownRuns: of random workspaces, every tool that some --cfg or some delegation gets to run is
// on the page, or the user's own config gives it too, or it is refused. What the page shows as a
// config of its own is never refused.
func TestShownRuns(t *testing.T) {
	base := t.TempDir()
	n, ran, refused := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := drawWorkspace(rt, filepath.Join(base, fmt.Sprint(n)))
		ctx := context.Background()
		a := w.app()
		j, err := a.ws.Gate.Judge(ctx, w.root)
		if err != nil {
			rt.Fatal(err)
		}
		page, err := a.review.Page(ctx, j)
		if err != nil {
			rt.Fatal(err)
		}
		if err := a.ws.Gate.Record(ctx, &j, page.Shown); err != nil {
			rt.Fatal(err)
		}
		a = w.app()
		src, err := a.ws.Sources(ctx, nil)
		if err != nil {
			rt.Fatal(err)
		}
		var own trust.Shown
		if r, err := profiles.Resolve(a.ws.SourcesOf(nil), nil, nil); err == nil {
			defs, _ := enabled.All(r, nil)
			for _, d := range defs {
				own.AddTool(d)
			}
		}
		var held map[string]profiles.Table // without a flag, which may enable others; nil = there is no flag
		try := func(what string, shown bool, r *profiles.Resolved, err error) {
			if err != nil {
				return
			}
			defs, err := a.env.Definitions(ctx, r)
			if f := (*exit.Error)(nil); errors.As(err, &f) && f.Code == "untrusted" {
				refused++
				if shown {
					rt.Errorf("%s: %v\n%s\n%s", what, err, w, page.Whole())
				}
			}
			if err != nil {
				return
			}
			ran++
			for _, d := range defs {
				if _, was := held[d.Name]; (was || held == nil) && !onPage(page, d) && !own.HasTool(d) {
					rt.Errorf("%s: runs %s, which is not on the page: %+v\n%s\n%s", what, d.Name, d, w, page.Whole())
				}
			}
			if c := r.Config.Delegation; c.MaxPerTurn > w.perTurn && !strings.Contains(page.Whole(), fmt.Sprintf("sets delegation.max_per_turn = %d", c.MaxPerTurn)) && !r.Reset {
				rt.Errorf("%s: max_per_turn = %d is not on the page\n%s\n%s", what, c.MaxPerTurn, w, page.Whole())
			}
		}
		resolve := func(ds []profiles.Directive) (*profiles.Resolved, error) { return profiles.Resolve(src, ds, nil) }
		r, err := resolve(nil)
		try("main", true, r, err)
		names, _ := profiles.Names(src)
		listed := map[string]bool{}
		for _, p := range names {
			listed[p.Name] = listed[p.Name] || p.Source == "workspace" && !p.Shadowed
		}
		cfg := func(texts ...string) (ds []profiles.Directive) {
			for _, text := range texts {
				ds = append(ds, profiles.Directive{Flag: "--cfg", Text: text})
			}
			return ds
		}
		for _, name := range w.names {
			r, err := resolve(cfg(name))
			if err != nil && !errors.Is(err, profiles.ErrNotFound) && !strings.Contains(err.Error(), "section that is not there") {
				continue // with another config it cannot be used either
			}
			try("--cfg "+name, listed[name], r, err)
			if p, err := profiles.Find(src, name); err == nil {
				r, err := resolve(workspace.UnderNone(p.Arg))
				try("delegation of "+name, listed[name], r, err)
			}
			for _, second := range w.seconds {
				r, err := resolve(cfg(name, second))
				try("--cfg "+name+" --cfg "+second, false, r, err)
			}
		}
		// A conversation that was made with one config continues with another one.
		first := w.seconds[0]
		r, err = resolve(cfg(first))
		if err == nil {
			_, err = a.env.Definitions(ctx, r)
		}
		if err != nil {
			return
		}
		src.Stored = r.Stored()
		r, err = resolve(nil)
		try("--cfg "+first+", then none", true, r, err)
		for _, name := range w.names {
			r, err := resolve(cfg(name))
			try("--cfg "+first+", then --cfg "+name, false, r, err)
			if err == nil {
				held = r.Tools
				r, err = resolve(cfg(name, w.flag))
				try("--cfg "+first+", then --cfg "+name+" --cfg "+w.flag, false, r, err)
				held = nil
			}
		}
	})
	t.Logf("of %d workspaces %d configs ran and %d were refused", n, ran, refused)
	if ran < 3*n || refused == 0 && n >= 100 { // with -short there are few
		t.Errorf("of %d workspaces %d configs ran and %d were refused: the test tests too little", n, ran, refused)
	}
}

// onPage reports whether the page shows, in what a person sees of it, a tool that can do all that d
// can do.
func onPage(page review.Page, d tools.Definition) bool {
	shown := enabled.ShowTool(d, "", nil)
	lists := [][]review.ToolGrant{page.Defined}
	for _, a := range page.Agents {
		lists = append(lists, a.Tools)
	}
	return slices.ContainsFunc(slices.Concat(lists...), func(t review.ToolGrant) bool {
		unasked := t.Run == string(tools.RunUnattended)
		return t.Name == d.Name && t.Source == d.Source && t.Command == shown.Command && t.Sandbox == shown.Sandbox && t.Network == shown.Network &&
			t.Access == strings.Join(shown.Access, ", ") && slices.Equal(t.Env, shown.Env) && t.JP == strings.Join(shown.JP, " ") &&
			(len(t.Options)+len(d.Options) == 0 || !d.Local() || reflect.DeepEqual(t.Options, d.Options)) &&
			(unasked || t.Run == shown.Run && (t.Detached == shown.Detached || t.Detached == string(tools.DetachedAuto))) &&
			(t.Result == shown.Result || t.Result == string(tools.ResultUnattended))
	})
}

// drawn is a random workspace.
type drawn struct {
	root, home string
	files      map[string]string
	links      map[string]string
	names      []string // that --cfg may be given
	seconds    []string // the second of two
	flag       string   // what a person says beside a config of a conversation that continues
	perTurn    int      // limit of the user, else the default
}

func (w drawn) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		fmt.Fprintf(&b, "-- %s --\n%s", name, w.files[name])
	}
	return b.String() + fmt.Sprint(w.links)
}

func (w drawn) app() *app {
	return newApp(console.Env{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dir: w.root, Environ: []string{"HOME=" + w.home, "JP_NONINTERACTIVE=1"},
	})
}

func drawWorkspace(rt *rapid.T, base string) drawn {
	w := drawn{root: filepath.Join(base, "work"), home: filepath.Join(base, "home"), files: map[string]string{}, links: map[string]string{}, perTurn: 5}
	maybe := func(name string) bool { return rapid.IntRange(0, 2).Draw(rt, name) == 0 }
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, name) }
	tool := func(name string) string {
		text := fmt.Sprintf("[conversation.tools.%q]\n", name)
		values := map[string][]string{
			"enable": {"false", "false", "true"}, "run": {`"unattended"`, `"ask"`}, "sandbox": {`"off"`, `"require"`}, "network": {`"any"`},
			"env": {`["TOKEN"]`}, "result": {`"ask"`, `"unattended"`}, "options": {`{ host = "a" }`, `{ host = "b" }`}, "detached": {`"auto"`},
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if maybe(key) && !((name == "*" || strings.HasPrefix(name, "fs_")) && slices.Contains([]string{"enable", "sandbox", "network", "env", "options"}, key)) {
				text += key + " = " + pick(key, values[key]...) + "\n"
			}
		}
		switch {
		case name == "*" || strings.HasPrefix(name, "fs_"):
		case strings.HasPrefix(name, "llm_"):
			text += "source = \"delegation\"\n"
		case maybe("part") && maybe("really"):
			text += pick("source alone", "", "source = \"local\"\n")
		case name == "u" && w.files["work/.jp/tools/u.toml"] != "":
		default:
			text += "source = \"local\"\ndescription = \"x\"\ncommand = \"touch " + pick("file", "a", "b") + "\"\n"
		}
		return text
	}
	config := func(depth string) string {
		text, tables := "", ""
		if depth != "part" && maybe("extends") {
			text += "extends = [" + pick("extended", `"part.i*"`, `"part.i*", "parts/*.toml"`, `"../part.i*"`, `"[a]*.toml"`) + "]\n"
		}
		if depth == "main" && maybe("paths") && maybe("really") {
			text += "config_load_paths = " + pick("load paths", `[".jp/config", ".jp/team"]`, `[".jp/team", ".jp/config"]`, `[".jp/config/sub"]`, `[".jp/config", ".jp/none"]`) + "\n"
		}
		if depth == "profile" && maybe("reset") {
			tables += "[loader]\nreset = \"none\"\n"
		}
		if depth == "main" || maybe("model") {
			tables += "[assistant]\nmodel = \"script/m.toml\"\n"
		}
		if maybe("limit") {
			tables += "[delegation]\nmax_per_turn = " + pick("per turn", "1", "5", "6", "99") + "\n"
		}
		if maybe("lent") {
			tables += "[delegation.llm_query]\ntools = [" + pick("lends", `"t"`, `"fs_read_file"`, `"u"`) + "]\n"
		}
		for _, name := range []string{"t", "u", "fs_read_file", "fs_create_file", "llm_tool_s", "*"} {
			if maybe("has "+name) && (name != "llm_tool_s" || maybe("really")) {
				tables += tool(name)
			}
		}
		return text + tables
	}
	if maybe("tools") {
		w.files["work/.jp/tools/u.toml"] = "name = \"u\"\nsource = \"local\"\ndescription = \"x\"\ncommand = \"touch u\"\nrun = \"" + pick("u", "ask", "unattended") + "\"\n"
	}
	if maybe("tools too") {
		w.files["work/.jp/tools/f.toml"] = "name = \"fs_read_file\"\nsource = \"local\"\ndescription = \"x\"\ncommand = \"touch f\"\n"
	}
	w.files["work/.jp/config.toml"] = config("main")
	for _, name := range []string{
		"config/a.toml", "config/b.toml", "config/sub/a.toml", "team/a.toml", "team/c.toml", "x.toml",
		"part.inc", "config/part.inc", "config/sub/part.inc", "parts/p.toml",
	} {
		if !maybe("not " + name) {
			w.files["work/.jp/"+name] = config(wording.Either(strings.Contains(name, "part"), "part", "profile"))
		}
	}
	if maybe("ini") {
		w.files["work/.jp/specializations.ini"] = "[llm_tool_s]\nsystem_prompt_patch = p\nsession_id = r\nskill = s\n"
		w.files["work/.jp/skills/s/SKILL.md"] = "---\nname: s\ndescription: d\n---\nb\n"
	}
	user := ""
	if maybe("user's limit") {
		w.perTurn = 2
		user += "[delegation]\nmax_per_turn = 2\n"
	}
	for _, name := range []string{"t", "fs_read_file"} {
		if maybe("user's " + name) {
			user += tool(name)
		}
	}
	w.files["home/.config/jp/config.toml"] = user
	for name, text := range w.files {
		path := filepath.Join(base, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			rt.Fatal(err)
		}
	}
	links := map[string]string{
		"config/up": "..", "config/sub/up": "..", "config/here": ".", "alias": "config", "config/away": "../team", "none": "/usr/share", "config/l.toml": "../x.toml",
	}
	for _, link := range slices.Sorted(maps.Keys(links)) {
		if maybe(link) {
			w.links[link] = links[link]
			path := filepath.Join(w.root, ".jp", link)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(links[link], path)); err != nil {
				rt.Fatal(err)
			}
		}
	}
	w.names = []string{
		"a", "b", "c", "l", "sub/a", "sub/up/a", "sub/up/sub/a", "here/b", "up/config/a", "away/c", ".jp/x.toml", ".jp/parts/p.toml",
		".jp/config/up/x.toml", ".jp/config/up/config/sub/a.toml", ".jp/alias/a.toml", ".jp/alias/sub/up/b.toml", ".jp/team/a.toml",
	}
	w.seconds = rapid.SliceOfN(rapid.SampledFrom(w.names), 2, 2).Draw(rt, "seconds")
	w.flag = fmt.Sprintf("conversation.tools.%s.timeout=5s", pick("flag", "t", "u", "fs_read_file"))
	return w
}

// TestPageEnds: a deadline or Ctrl-C ends a page that takes long, and nothing is asked.
func TestPageEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorkspace(rt, filepath.Join(t.TempDir(), "w"))
		ctx, end := context.WithCancelCause(context.Background())
		a := w.app()
		j, err := a.ws.Gate.Judge(ctx, w.root)
		if err != nil {
			rt.Fatal(err)
		}
		want := errors.New("ended")
		end(want)
		if _, err := a.review.Page(ctx, j); !errors.Is(err, want) {
			rt.Fatalf("Page = %v, want %v", err, want)
		}
	})
}
