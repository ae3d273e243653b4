package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
)

// trustApp is a jp in a workspace with these files, with a state folder of its own.
func trustApp(t testing.TB, files map[string]string, environ ...string) (a *app, root string) {
	t.Helper()
	base := t.TempDir()
	root = filepath.Join(base, "work")
	if err := os.MkdirAll(filepath.Join(root, ".jp"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, root, files)
	return newApp(console.Env{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dir: root,
		Environ: append([]string{"HOME=" + filepath.Join(base, "home"), "JP_NONINTERACTIVE=1"}, environ...),
	}), root
}

func writeFiles(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// readings are all that package profiles says of a workspace, and of a profile by its path below
// it, as text.
func readings(t *testing.T, src profiles.Sources, root, profile string) string {
	t.Helper()
	var b strings.Builder
	say := func(what string, v any, err error) {
		text, bad := json.Marshal(v)
		if bad != nil {
			t.Fatal(bad)
		}
		fmt.Fprintf(&b, "%s: %s, %v\n", what, text, err)
	}
	for _, ds := range [][]profiles.Directive{
		nil, {{Flag: "--cfg", Text: "agent/r"}}, workspace.UnderNone(filepath.Join(root, ".jp/config/agent/r.toml")),
		workspace.UnderNone(filepath.Join(root, profile)), workspace.UnderNone(".jp/linked/r.toml"),
	} {
		r, err := profiles.Resolve(src, ds, nil)
		if err != nil {
			say("resolve", ds, err)
			continue
		}
		say("resolve", []any{string(r.Stored()), r.Layers, r.ProfileHash, r.Config.Assistant.Name, r.Config.Assistant.Instructions}, nil)
	}
	found, err := profiles.Find(src, "agent/r")
	say("find", found, err)
	names, err := profiles.Names(src)
	say("names", names, err)
	skills, problems := profiles.Skills(src)
	say("skills", skills, errors.Join(problems...))
	specials, err := profiles.LoadSpecializations(src, "", nil)
	say("specializations", specials, err)
	say("check", profiles.Check(src, filepath.Join(root, ".jp/config.toml")), nil)
	say("extends", profiles.Extends(src, filepath.Join(root, ".jp/config.toml")), nil)
	return b.String()
}

// TestTrustedBytes: what passed the gate is what is read, whatever becomes of the files afterwards.
func TestTrustedBytes(t *testing.T) {
	file := func(name string) string { return "assistant.name = \"" + name + "\"\n" }
	skill := func(text string) string { return "---\ndescription: " + text + "\n---\n" + text }
	for name, exchange := range map[string]func(t *testing.T, root string){
		"exchanged": func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{
				".jp/config.toml": file("evil"), ".jp/parts/a.toml": file("evil"), ".jp/parts/c.toml": file("evil"), ".jp/config/agent/r.toml": file("evil"),
				".jp/config/agent/new.toml": file("evil"), ".jp/skills/k/SKILL.md": skill("evil"), ".agents/skills/l/SKILL.md": skill("evil"),
				".claude/skills/new/SKILL.md": skill("evil"), ".jp/specializations.ini": "[llm_tool_evil]\n", "AGENTS.md": "evil",
			})
		},
		"gone": func(t *testing.T, root string) {
			for _, name := range []string{".jp", ".agents"} {
				if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"another folder": func(t *testing.T, root string) {
			writeFiles(t, root, map[string]string{"evil/config.toml": file("evil"), "evil/config/agent/r.toml": file("evil")})
			if err := errors.Join(os.Rename(filepath.Join(root, ".jp"), filepath.Join(root, "was")), os.Symlink("evil", filepath.Join(root, ".jp"))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, root := trustApp(t, map[string]string{
				".jp/config.toml": "extends = [\"parts/*.toml\", \"config/agent/r.toml\"]\n", ".jp/parts/a.toml": file("part"), ".jp/parts/b.toml": file("part b"),
				".jp/config/agent/r.toml": file("trusted"), ".jp/skills/k/SKILL.md": skill("Does k."), ".agents/skills/l/SKILL.md": skill("Does l."),
				".jp/specializations.ini": "[llm_tool_x]\nsystem_prompt_patch = p\nsession_id = s\nskill = l\n", "AGENTS.md": "trusted",
			}, "JP_TRUST_WORKSPACE=1")
			for link, to := range map[string]string{"alias": ".jp", ".jp/linked": "config/agent", ".jp/config/agent/up": ".."} {
				if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
					t.Fatal(err)
				}
			}
			src, err := a.ws.Sources(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			profile := "alias/config/agent/r.toml"
			if name == "gone" { // no link leads there any more
				profile = ".jp/config/agent/up/agent/r.toml"
			}
			before := readings(t, src, root, profile)
			for _, want := range []string{`"trusted"`, `"Does k."`, `"Does l."`, `"llm_tool_x"`, `/.jp/linked/r.toml"`, "/" + filepath.Base(root) + "/" + profile, `"agent/r"`, `AGENTS.md`} {
				if !strings.Contains(before, want) {
					t.Errorf("before: no %s in\n%s", want, before)
				}
			}
			if strings.Contains(before, "not found") || strings.Contains(before, "no such file") {
				t.Errorf("before:\n%s", before)
			}
			exchange(t, root)
			if after := readings(t, src, root, profile); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// TestUntrustedBytes: nobody gets the files of a workspace that is not trusted, under whatever
// name.
func TestUntrustedBytes(t *testing.T) {
	ctx := context.Background()
	b, root := trustApp(t, map[string]string{
		".jp/config.toml": "assistant.name = \"one\"\n", ".jp/config/agent/r.toml": "assistant.name = \"one\"\n", ".jp/tools/t.toml": "x",
		".agents/skills/l/SKILL.md": "---\ndescription: d\n---\nb\n", "mine.toml": "extends = [\".jp/config.toml\"]\n", "all.toml": "extends = [\".jp/*.toml\"]\n",
	})
	if err := errors.Join(os.Symlink(".jp", filepath.Join(root, "alias")), os.Symlink("alias/gone.toml", filepath.Join(root, "dangling.toml"))); err != nil {
		t.Fatal(err)
	}
	if files, err := b.ws.Gate.Tools(ctx); len(files) != 0 || err != nil {
		t.Errorf("tools without the gate = %v, %v", files, err)
	}
	refused, err := b.ws.Sources(ctx, nil)
	if refused.Files != nil || console.Explain(err).Code != "untrusted" {
		t.Errorf("sources of an untrusted workspace = %+v, %v", refused, err)
	}
	none, err := b.ws.Sources(ctx, workspace.UnderNone(""))
	if none.Files != nil || err != nil {
		t.Errorf("sources under NONE = %+v, %v", none, err)
	}
	for name, src := range map[string]profiles.Sources{
		"refused": refused, "under NONE": none, "completion": b.ws.TrustedSources(ctx), "a sub-agent": b.ws.SourcesOf(nil), "without the gate": {Workspace: root, Dir: root},
	} {
		for _, arg := range []string{".jp/config.toml", root + "/.jp/config/agent/r.toml", "alias/config.toml", "alias/new.toml", "dangling.toml", "mine.toml", "all.toml"} {
			for _, ds := range [][]profiles.Directive{workspace.UnderNone(arg), {{Flag: "--cfg", Text: "./" + strings.TrimPrefix(arg, root+"/")}}} {
				_, err := profiles.Resolve(src, ds, nil)
				if r := console.Explain(err); r.Code != "untrusted" || r.Status != exit.Refused || !strings.HasSuffix(r.Message, "the workspace is not trusted") {
					t.Errorf("%s: resolve of %v: %+v", name, ds, r)
				}
			}
		}
		if r, err := profiles.Resolve(src, nil, nil); err != nil || r.Config.Assistant.Name == "one" {
			t.Errorf("%s: resolve = %+v, %v", name, r, err)
		}
		if found, err := profiles.Find(src, "agent/r"); !errors.Is(err, profiles.ErrNotFound) {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
		if found, problems := profiles.Skills(src); len(found)+len(problems) > 0 {
			t.Errorf("%s: skills %v, %v", name, found, problems)
		}
	}
	// A user's config that is made of a file of the workspace is not left out, also under NONE: an
	// agent would go on with other endpoints.
	writeFiles(t, filepath.Dir(root), map[string]string{"home/.config/jp/config.toml": "extends = [\"" + root + "/.jp/config.toml\"]\n"})
	for _, ds := range [][]profiles.Directive{nil, workspace.UnderNone("")} {
		if _, err := profiles.Resolve(b.ws.SourcesOf(nil), ds, nil); console.Explain(err).Code != "untrusted" {
			t.Errorf("resolve of %v with the user's config = %v", ds, err)
		}
	}
}
