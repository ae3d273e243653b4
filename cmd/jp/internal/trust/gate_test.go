package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/profiles/ondisk"
	tfiles "jp/tools/files"
)

// gateAt is the gate of a workspace with these files, with a folder of its own for records.
func gateAt(t testing.TB, files map[string]string, environ ...string) (g *Gate, root string) {
	t.Helper()
	base := t.TempDir()
	root = filepath.Join(base, "work")
	if err := os.MkdirAll(filepath.Join(root, ".jp"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, root, files)
	records := filepath.Join(base, "records")
	return &Gate{
		Con: console.New(console.Env{
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dir: root,
			Environ: append([]string{"HOME=" + filepath.Join(base, "home"), "JP_NONINTERACTIVE=1"}, environ...),
		}),
		Root:    func() (string, error) { return root, nil },
		Records: func(context.Context, string) (string, error) { return records, nil },
	}, root
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

func mustContribute(t testing.TB, root string) *Files {
	t.Helper()
	c, err := look(root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestContributedSeesEveryChange mutates one file of a random workspace: the difference names
// exactly that file.
func TestContributedSeesEveryChange(t *testing.T) {
	places := []string{".jp/config.toml", ".jp/config/agent/a.toml", ".jp/tools/t.toml", ".jp/tools/t.sh", ".jp/.hidden", ".jp/specializations.ini",
		".jp/skills/s/SKILL.md", ".agents/skills/s/ref/x.md", ".claude/skills/s/SKILL.md", "AGENTS.md", "CLAUDE.md", ".mcp.json"}
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		root := filepath.Join(base, string(rune('a'+n%26)), time.Now().Format("150405.000000000"))
		if err := os.MkdirAll(filepath.Join(root, ".jp"), 0o755); err != nil {
			t.Fatal(err)
		}
		files := rapid.MapOf(rapid.SampledFrom(places), rapid.StringN(0, 20, 40)).Draw(rt, "files")
		writeFiles(t, root, files)
		before := mustContribute(t, root).Stamps
		if got := slices.Sorted(maps.Keys(before)); !slices.Equal(got, slices.Sorted(maps.Keys(files))) {
			rt.Fatalf("contributed = %q, want the files %q", got, slices.Sorted(maps.Keys(files)))
		}
		name := rapid.SampledFrom(places).Draw(rt, "changed")
		old, was := files[name]
		state := "new"
		switch {
		case was && rapid.Bool().Draw(rt, "remove"):
			state = "gone"
			if err := os.Remove(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
		case was:
			state = "changed"
			writeFiles(t, root, map[string]string{name: old + "x"})
		default:
			writeFiles(t, root, map[string]string{name: "x"})
		}
		after := mustContribute(t, root).Stamps
		got := Changes(before, after)
		if len(got) != 1 || got[0].Path != name || got[0].State != state {
			rt.Fatalf("changes = %+v, want %s %s", got, state, name)
		}
		if same := Changes(after, after); len(same) != 0 {
			rt.Fatalf("changes of the same = %+v", same)
		}
	})
}

func TestContributedLinks(t *testing.T) {
	root := t.TempDir()
	writeFiles(t, root, map[string]string{".jp/real/a.toml": "a", ".jp/config/x": "", "docs/SKILL.md": "skill", ".agents/skills/x": ""})
	for name, to := range map[string]string{
		".jp/config/a.toml":    "../real/a.toml",   // inside: by its content
		".jp/config/dir":       "../real",          // a folder inside
		".jp/config/up":        "..",               // a circle
		".jp/config/out":       "../../docs",       // out of .jp
		".jp/config/abs":       root + "/.jp/real", // absolute ones count as out
		".jp/config/gone":      "nowhere",          //
		".agents/skills/docs":  "../../docs",       // inside of the workspace
		".agents/skills/above": "../../..",         // out of it
	} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := mustContribute(t, root)
	a, skill := DataStamp([]byte("a")), DataStamp([]byte("skill"))
	want := map[string]string{
		".jp/real/a.toml": a, ".jp/config/x": DataStamp(nil), ".agents/skills/x": DataStamp(nil),
		".jp/config/a.toml": `link:"../real/a.toml" ` + a, ".jp/config/dir": `link:"../real"`, ".jp/config/dir/a.toml": a,
		".jp/config/up": `link:".."`, ".jp/config/out": `link:"../../docs"`, ".jp/config/abs": `link:"` + root + `/.jp/real"`,
		".jp/config/gone": `link:"nowhere"`, ".agents/skills/docs": `link:"../../docs"`, ".agents/skills/docs/SKILL.md": skill,
		".agents/skills/above": `link:"../../.."`,
	}
	if !maps.Equal(c.Stamps, want) {
		t.Errorf("stamps:\n got %v\nwant %v", c.Stamps, want)
	}
	for key, want := range map[string]string{
		".jp/real/a.toml": "a", ".jp/config/a.toml": "a", ".jp/config/dir/a.toml": "a", ".jp/config/up/real/a.toml": "a", ".jp/config/x": "",
		".agents/skills/docs/SKILL.md": "skill",
	} {
		if data, err := fs.ReadFile(c.FS(), key); string(data) != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", key, data, err, want)
		}
	}
}

// TestFS: the files of a gate are those on the disk, with the same errors for what cannot be read.
func TestFS(t *testing.T) {
	root := t.TempDir()
	large := strings.Repeat("x", MaxContributedKept+1)
	writeFiles(t, root, map[string]string{
		".jp/a.toml": "a", ".jp/b/c.toml": "c", ".jp/b/d/e.toml": "", ".jp/large": large, ".jp/most": large[1:], ".agents/skills/s/SKILL.md": "s", "out/o": "o",
	})
	if err := errors.Join(os.Mkdir(filepath.Join(root, ".jp/empty"), 0o700), syscall.Mkfifo(filepath.Join(root, ".jp/pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		".jp/l.toml": "a.toml", ".jp/f": "b", ".jp/b/up": "..", ".jp/b/d/self": ".", ".jp/out": "../out", ".jp/gone": "nowhere", ".jp/round": "round",
		".jp/way": "pipe", ".jp/none": "empty", ".agents/skills/o": "../../out",
	} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	memory, disk := mustContribute(t, root).FS(), ondisk.FS(root)
	names := []string{".jp/none/x", ".jp/a.toml/x", ".jp/out/o", ".jp/gone/x", ".jp/round/x", ".jp/pipe/x", ".jp/absent", ".jp/b/up/b/up/b/c.toml", ".jp/b/d/self/self/e.toml",
		".jp/b/up/absent", ".agents/skills/s/x", ".agents/absent", "../x", "/x", ""}
	for _, top := range []string{".jp", ".agents/skills"} {
		if err := fs.WalkDir(disk, top, func(name string, _ fs.DirEntry, err error) error {
			names = append(names, name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) < 30 {
		t.Fatalf("names = %q", names)
	}
	for _, name := range names {
		sameFile(t, memory, disk, name)
	}
	if (*Files)(nil).FS() != nil {
		t.Error("no files are a file system")
	}
}

// TestFSLinks compares workspaces of random files and links.
func TestFSLinks(t *testing.T) {
	places := []string{"a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/c", "f"}
	targets := []string{"a", "b", "c", "d", "f", "..", ".", "../a", "../b", "../d", "d/e", "../..", "../../f", "d/a", "../d/e/c/x", "e/../a", "/", "../../../x"}
	paths := []string{"a", "b", "c", "d", "e", "f", "d/a", "d/b", "d/e", "d/e/a", "d/e/c", "x"}
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		root := filepath.Join(base, fmt.Sprint(n))
		if err := os.MkdirAll(filepath.Join(root, ".jp/d/e"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, to := range rapid.MapOfN(rapid.SampledFrom(places), rapid.SampledFrom(append(targets, "")), 1, 8).Draw(rt, "files") {
			name = filepath.Join(root, ".jp", name)
			err := error(nil)
			if to == "" {
				err = os.WriteFile(name, []byte(name), 0o600)
			} else {
				err = os.Symlink(to, name)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		memory, disk := mustContribute(t, root).FS(), ondisk.FS(root)
		for _, words := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(paths), 1, 4), 20, 20).Draw(rt, "names") {
			name := path.Join(".jp", path.Join(words...))
			if _, err := fs.Stat(disk, name); errors.Is(err, syscall.ELOOP) {
				continue // os.Root follows a few links only, and what is in memory needs none
			}
			sameFile(rt, memory, disk, name)
		}
	})
}

// sameFile compares what two file systems say of one name.
func sameFile(t rapid.TB, memory, disk fs.FS, name string) {
	t.Helper()
	text := func(err error) string {
		if err != nil {
			return tfiles.Reason(err).Error()
		}
		return ""
	}
	same := func(got, want fs.FileInfo) {
		if (got == nil) != (want == nil) || got != nil && (got.Mode() != want.Mode() || !os.SameFile(got, want) || !got.IsDir() && (got.Name() != want.Name() || got.Size() != want.Size())) {
			t.Errorf("%s: %v, on the disk %v", name, got, want)
		}
	}
	got, err := fs.Stat(memory, name)
	want, wrong := fs.Stat(disk, name)
	if text(err) != text(wrong) {
		t.Errorf("stat %s: %v, on the disk %v", name, err, wrong)
	}
	if err == nil {
		same(got, want)
	}
	for _, limit := range []int{MaxContributedKept, 1} {
		data, info, err := tfiles.ReadFS(memory, name, limit)
		there, real, wrong := tfiles.ReadFS(disk, name, limit)
		if !bytes.Equal(data, there) || text(err) != text(wrong) {
			t.Errorf("read %s: %d bytes, %v, on the disk %d, %v", name, len(data), err, len(there), wrong)
		}
		same(info, real)
	}
	list, err := fs.ReadDir(memory, name)
	there, wrong := fs.ReadDir(disk, name)
	if (err == nil) != (wrong == nil) || len(list) != len(there) {
		t.Errorf("list %s: %v, %v, on the disk %v, %v", name, list, err, there, wrong)
		return
	}
	for i := range list {
		if list[i].Name() != there[i].Name() || list[i].Type() != there[i].Type() {
			t.Errorf("list %s: %v, on the disk %v", name, list, there)
		}
	}
}

// TestTrustRecordPath: a path that is no UTF-8 is known again, and no other counts as it.
func TestTrustRecordPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trust-0.json")
	if err := writeRecord(file, Record{Workspace: "/w\xff"}); err != nil {
		t.Fatal(err)
	}
	if r, complaint := readRecord(file, "/w\xff"); r == nil || complaint != "" {
		t.Errorf("readTrust = %v, %q", r, complaint)
	}
	for _, other := range []string{"/w\xfe", "/w\uFFFD"} {
		if r, _ := readRecord(file, other); r != nil {
			t.Errorf("readTrust for %q = %+v, want none", other, r)
		}
	}
}

func TestTrustRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "deep")
	file := filepath.Join(dir, "trust-0.json")
	record := Record{Workspace: "/w", State: State{TrustedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Files: map[string]string{"a": "b"}}}
	if r, complaint := readRecord(file, "/w"); r != nil || complaint != "" {
		t.Fatalf("readTrust of nothing = %v, %q", r, complaint)
	}
	if err := writeRecord(file, record); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, file: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v, want %o", path, info.Mode(), err, mode)
		}
	}
	r, complaint := readRecord(file, "/w")
	if complaint != "" || r.Workspace != "/w" || !r.TrustedAt.Equal(record.TrustedAt) || !maps.Equal(r.Files, record.Files) {
		t.Fatalf("readTrust = %+v, %q", r, complaint)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(path string) error{
		"it is that of another workspace": func(p string) error {
			return os.WriteFile(p, bytes.Replace(whole, []byte(`"/w"`), []byte(`"/v"`), 1), 0o600)
		},
		"it is damaged": func(p string) error { return os.WriteFile(p, whole[:len(whole)/2], 0o600) },
		"it has version 2, this jp knows 1": func(p string) error {
			return os.WriteFile(p, bytes.Replace(whole, []byte(`"version": 1`), []byte(`"version": 2`), 1), 0o600)
		},
		"others may write to it": func(p string) error { return errors.Join(os.WriteFile(p, whole, 0o600), os.Chmod(p, 0o620)) },
		"it is a symbolic link": func(p string) error {
			return errors.Join(os.WriteFile(p+"2", whole, 0o600), os.Symlink(p+"2", p))
		},
		"it is a folder, not a file": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "trust-0.json")
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		if r, complaint := readRecord(path, "/w"); r != nil || !strings.HasSuffix(complaint, name) {
			t.Errorf("readTrust = %v, %q, want %q", r, complaint, name)
		}
	}
}

// TestTrustedOwner needs root, who alone can give files away.
func TestTrustedOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to someone else")
	}
	for environ, refused := range map[string]bool{"JP_TRUST_WORKSPACE=": true, "JP_TRUST_WORKSPACE=1": false} {
		a, root := gateAt(t, map[string]string{".jp/config.toml": ""}, environ)
		if err := os.Chown(filepath.Join(root, ".jp"), 4242, -1); err != nil {
			t.Fatal(err)
		}
		_, err := a.Pass(context.Background())
		if (err != nil) != refused || refused && !strings.HasSuffix(err.Error(), "cannot be trusted: .jp belongs to someone else (user 4242)") {
			t.Errorf("%s: %v, want refused %v", environ, err, refused)
		}
	}
}

// TestTrustWritten adds what jp wrote and leaves the rest as untrusted as it was.
func TestTrustWritten(t *testing.T) {
	ctx := context.Background()
	a, root := gateAt(t, map[string]string{".jp/tools/evil.toml": "evil", ".jp/config.toml": "mine"})
	if err := a.Written(ctx, root, map[string][]byte{".jp/config.toml": []byte("mine")}); err != nil {
		t.Fatal(err)
	}
	j, err := a.Judge(ctx, root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{{".jp/tools/evil.toml", "new", DataStamp([]byte("evil"))}}
	if j.OK() || !slices.Equal(j.Changes, want) {
		t.Errorf("changes = %+v, want %+v", j.Changes, want)
	}
	if err := os.Remove(filepath.Join(root, ".jp", "tools", "evil.toml")); err != nil {
		t.Fatal(err)
	}
	if j, err = a.Judge(ctx, root); err != nil || !j.OK() {
		t.Errorf("without the stranger: %+v, %v", j.Changes, err)
	}
}

// TestTrustWrittenShows: what a stranger's file says is not taken for shown when jp writes a file,
// wherever between the pages it appears.
func TestTrustWrittenShows(t *testing.T) {
	ctx := context.Background()
	const mine, theirs = ".jp/config.toml", ".jp/config/theirs.toml"
	for _, when := range []string{"before", "meanwhile", "at the end"} {
		a, root := gateAt(t, map[string]string{mine: "old"})
		if err := a.Written(ctx, root, map[string][]byte{mine: []byte("old")}); err != nil {
			t.Fatal(err)
		}
		pages := 0
		appear := func(now string) {
			if now == when {
				writeFiles(t, root, map[string]string{theirs: "evil"})
			}
		}
		a.Page = func(_ context.Context, j Judgement, _ int) (string, Shown, error) { // two files give more than each
			both := strings.Join(slices.Sorted(maps.Keys(j.Files.Data)), "+") + ":" + string(j.Files.Data[mine])
			if pages++; pages == 1 {
				appear("meanwhile")
			}
			shown := Shown{Page: map[string][]string{"": {both}}}
			shown.AddSetting("files", both)
			return "", shown, nil
		}
		appear("before")
		if err := a.Write(ctx, root, map[string][]byte{mine: []byte("new")}, func() error {
			writeFiles(t, root, map[string]string{mine: "new"})
			appear("at the end")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		j, err := a.Judge(ctx, root)
		if err != nil {
			t.Fatal(err)
		}
		var want Shown
		want.AddSetting("files", mine+":new")
		if got := j.Before(); !slices.Equal(got.Settings, want.Settings) || !slices.Equal(got.Page[""], []string{mine + ":new"}) {
			t.Errorf("%s: shown %v", when, got.Page)
		}
	}
}

// TestTrustWrittenAgain: what jp writes counts as shown, also where a state is remembered that has
// the same file and lacks that.
func TestTrustWrittenAgain(t *testing.T) {
	ctx := context.Background()
	const name = ".jp/config.toml"
	a, root := gateAt(t, map[string]string{name: "mine"})
	j, err := a.Judge(ctx, root)
	if err == nil {
		err = a.Record(ctx, &j, Shown{})
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Page = func(_ context.Context, j Judgement, _ int) (_ string, shown Shown, _ error) {
		for key := range j.Files.Data {
			shown.AddSetting("file", key)
		}
		return "", shown, nil
	}
	if err := a.Written(ctx, root, map[string][]byte{name: []byte("mine")}); err != nil {
		t.Fatal(err)
	}
	if j, err = a.Judge(ctx, root); err != nil || !j.Before().HasSetting("file", name) {
		t.Errorf("shown %+v, %v", j.Before(), err)
	}
}

// TestTrustTakenBack: an answer to a question counts only while the state is trusted that the
// question was compared with, with all that was shown of it.
func TestTrustTakenBack(t *testing.T) {
	ctx := context.Background()
	const name = ".jp/config.toml"
	var all, less Shown
	all.AddSetting("a", true)
	for _, tt := range []struct {
		meanwhile string
		ok        bool
	}{{"nothing", true}, {"another state", true}, {"revoked", false}, {"trusted again with less", false}} {
		a, root := gateAt(t, map[string]string{name: "old"})
		judged := func() Judgement {
			t.Helper()
			j, err := a.Judge(ctx, root)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		j := judged()
		if err := a.Record(ctx, &j, all); err != nil {
			t.Fatal(err)
		}
		writeFiles(t, root, map[string]string{name: "new"})
		asked := judged()
		switch tt.meanwhile {
		case "another state":
			j := judged()
			if err := a.Record(ctx, &j, less); err != nil {
				t.Fatal(err)
			}
		case "revoked", "trusted again with less":
			if err := os.Remove(asked.Path); err != nil {
				t.Fatal(err)
			}
			if tt.meanwhile == "revoked" {
				break
			}
			writeFiles(t, root, map[string]string{name: "old"})
			j := judged()
			if err := a.Record(ctx, &j, less); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{name: "new"})
		}
		err := a.Record(ctx, &asked, all)
		if (err == nil) != tt.ok || err != nil && console.Explain(err).Status != exit.Refused {
			t.Errorf("%s: %v, want ok %v", tt.meanwhile, err, tt.ok)
		}
		if j := judged(); j.OK() != tt.ok {
			t.Errorf("%s: %s, want ok %v", tt.meanwhile, j.Status(), tt.ok)
		}
	}
}

// A jp that is killed while it writes leaves a workspace that is trusted: with what was there or
// with what was to be there, and nothing else. The next that writes another file forgets neither.
func TestTrustKilled(t *testing.T) {
	ctx := context.Background()
	const name = ".jp/config.toml"
	for _, tt := range []struct {
		there string
		ok    bool
	}{{"old", true}, {"new", true}, {"ne", false}, {"", false}} {
		a, root := gateAt(t, map[string]string{name: "old"})
		if err := a.Written(ctx, root, map[string][]byte{name: []byte("old")}); err != nil {
			t.Fatal(err)
		}
		var record []byte // as it is while the file is written
		file, _, err := a.RecordPath(ctx, root)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Write(ctx, root, map[string][]byte{name: []byte("new")}, func() (err error) {
			record, err = os.ReadFile(file)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for path, data := range map[string]string{file: string(record), filepath.Join(root, name): tt.there} {
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, when := range []string{"then", "after the next"} {
			if j, err := a.Judge(ctx, root); err != nil || j.OK() != tt.ok {
				t.Errorf("%s, %q is there: %+v, %v, want ok %v", when, tt.there, j.Changes, err, tt.ok)
			}
			other := func() error { return os.WriteFile(filepath.Join(root, ".jp", "x.toml"), nil, 0o600) }
			if err := a.Write(ctx, root, map[string][]byte{".jp/x.toml": nil}, other); err != nil {
				t.Fatal(err)
			}
		}
		if r, _ := readRecord(file, resolved(t, root)); r == nil || r.Writing != nil || len(r.Files) != 2 {
			t.Errorf("%q is there: record %+v", tt.there, r)
		}
	}
}

// What fails to be written is not trusted.
func TestTrustUnwritten(t *testing.T) {
	ctx := context.Background()
	const name = ".jp/config.toml"
	a, root := gateAt(t, map[string]string{name: "old"})
	if err := a.Written(ctx, root, map[string][]byte{name: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left")
	if err := a.Write(ctx, root, map[string][]byte{name: []byte("new")}, func() error { return full }); !errors.Is(err, full) {
		t.Errorf("writeTrusted = %v, want %v", err, full)
	}
	if j, err := a.Judge(ctx, root); err != nil || !j.OK() {
		t.Errorf("with what was there: %+v, %v", j.Changes, err)
	}
	if err := os.WriteFile(filepath.Join(root, name), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err := a.Judge(ctx, root); err != nil || j.OK() {
		t.Errorf("with what was not written: %+v, %v, want a change", j.Changes, err)
	}
}

func resolved(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// TestTrustTogether has many processes' worth of jp add to one record: each holds the lock through
// a descriptor of its own, as processes do, and none loses what another added.
func TestTrustTogether(t *testing.T) {
	ctx := context.Background()
	a, root := gateAt(t, map[string]string{".jp/config.toml": "mine"})
	file, real, err := a.RecordPath(ctx, root)
	if err != nil {
		t.Fatal(err)
	}
	const n = 32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := a.Written(ctx, root, map[string][]byte{fmt.Sprintf(".jp/config/p%d.toml", i): nil}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r, complaint := readRecord(file, real)
	if complaint != "" || r == nil || len(r.Files) != n {
		t.Errorf("readTrust = %+v, %q, want %d files", r, complaint, n)
	}
}

// TestTrustMeanwhile: a person trusts what they have seen. What jp wrote and trusted meanwhile
// stays trusted as a state of its own, and not together with what the person has seen.
func TestTrustMeanwhile(t *testing.T) {
	ctx := context.Background()
	a, root := gateAt(t, map[string]string{".jp/config.toml": "old", ".jp/a.toml": "a"})
	seen := func() Judgement {
		t.Helper()
		j, err := a.Judge(ctx, root)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	first := seen()
	if err := a.Record(ctx, &first, Shown{}); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".jp/a.toml", "changed by someone")
	j := seen()
	write(".jp/config.toml", "set")
	if err := a.Written(ctx, root, map[string][]byte{".jp/config.toml": []byte("set")}); err != nil {
		t.Fatal(err)
	}
	write(".jp/b.toml", "by someone else")
	if err := a.Record(ctx, &j, Shown{}); err != nil {
		t.Fatal(err)
	}
	want := []Change{{".jp/b.toml", "new", DataStamp([]byte("by someone else"))}, {".jp/config.toml", "changed", DataStamp([]byte("set"))}}
	if j := seen(); !slices.Equal(j.Changes, want) {
		t.Errorf("changes = %+v, want %+v", j.Changes, want)
	}
	if err := os.Remove(filepath.Join(root, ".jp/b.toml")); err != nil {
		t.Fatal(err)
	}
	for _, state := range []struct {
		config, a string
		ok        bool
	}{{"old", "a", true}, {"set", "a", true}, {"old", "changed by someone", true}, {"set", "changed by someone", false}} {
		write(".jp/config.toml", state.config)
		write(".jp/a.toml", state.a)
		if j := seen(); j.OK() != state.ok {
			t.Errorf("%+v: %s", state, j.Status())
		}
	}
}

// TestStates trusts random states of a workspace: it passes in each of the latest ones, with what
// was shown of that one, and in no other.
func TestStates(t *testing.T) {
	ctx := context.Background()
	names := []string{".jp/config.toml", ".jp/a.toml", "AGENTS.md"}
	rapid.Check(t, func(rt *rapid.T) {
		g, root := gateAt(t, nil)
		put := func(state []string) Judgement {
			for i, name := range names {
				_ = os.Remove(filepath.Join(root, name))
				if state[i] != "" {
					writeFiles(t, root, map[string]string{name: state[i]})
				}
			}
			j, err := g.Judge(ctx, root)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		states := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{"", "1", "2", "3"}), len(names), len(names)), 1, 25)
		var kept [][]string // the latest last
		same := func(a []string) func([]string) bool { return func(b []string) bool { return slices.Equal(a, b) } }
		empty := []string{"", "", ""} // has nothing to trust, and takes no place among the earlier ones
		for _, state := range states.Draw(rt, "trusted") {
			j := put(state)
			var shown Shown
			shown.AddSetting("state", strings.Join(state, ","))
			if err := g.Record(ctx, &j, shown); err != nil {
				t.Fatal(err)
			}
			kept = slices.DeleteFunc(slices.DeleteFunc(kept, same(state)), same(empty))
			kept = append(kept[max(0, len(kept)-maxEarlier):], state)
		}
		for _, state := range append(states.Draw(rt, "tried"), kept...) {
			j, none := put(state), slices.Equal(state, empty)
			if want := none || slices.ContainsFunc(kept, same(state)); j.OK() != want {
				rt.Fatalf("%q: %s, want trusted %v", state, j.Status(), want)
			}
			if j.OK() && !none && !j.shown().HasSetting("state", strings.Join(state, ",")) {
				rt.Fatalf("%q: what was shown of another state", state)
			}
		}
	})
}

// TestStatesBound: a record that would be too large to be read forgets its oldest states.
func TestStatesBound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trust-0.json")
	large := func(name string) State {
		return State{Files: map[string]string{name: strings.Repeat("x", maxRecord/3)}, Shown: &Shown{}}
	}
	if err := writeRecord(file, Record{Workspace: "/w", State: large("a"), Earlier: []State{large("b"), large("c"), large("d")}}); err != nil {
		t.Fatal(err)
	}
	r, complaint := readRecord(file, "/w")
	if complaint != "" || len(r.Earlier) != 1 || r.Earlier[0].Files["b"] == "" {
		t.Errorf("readTrust: %s, %d earlier states", complaint, len(r.Earlier))
	}
}

// TestEditorFiles: the files of editors are not there, unless a file that counts names one.
func TestEditorFiles(t *testing.T) {
	const x = "x"
	noise := map[string]string{
		".jp/.config.toml.swp": x, ".jp/.config.toml.swo": x, ".jp/config.toml~": x, ".jp/#config.toml#": x, ".jp/.DS_Store": x,
		".jp/tools/run.sh~": x, ".agents/skills/s/SKILL.md~": x,
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		link  string // target of .jp/link
		count bool
	}{
		{name: "none named", files: map[string]string{".jp/config.toml": "config.toml", "AGENTS.md": "*~"}},
		{name: "ignored by git", files: map[string]string{".jp/.gitignore": ".DS_Store\nrun.sh~\n"}},
		{name: "command", files: map[string]string{".jp/tools/t.toml": "command = \"sh .jp/tools/run.sh~\""}, count: true},
		{name: "capitals", files: map[string]string{".jp/tools/t.toml": "sh RUN.SH~"}, count: true},
		{name: "server", files: map[string]string{".mcp.json": ".jp/.config.toml.swp"}, count: true},
		{name: "instructions", files: map[string]string{"AGENTS.md": "run .agents/skills/s/SKILL.md~"}, count: true},
		{name: "too large to be searched", files: map[string]string{".jp/large": strings.Repeat("x", MaxContributedKept+1)}, count: true},
		{name: "link", files: map[string]string{}, link: "config.toml~"},
		{name: "folder", files: map[string]string{".jp/config~/a.toml": x, ".jp/#a#/b": x}},
		{name: "other names", files: map[string]string{".jp/~": x, ".jp/a~b": x, ".jp/é.toml~": x, ".jp/#a": x, ".jp/a.swp": x, ".jp/.ds_store": x}},
	} {
		root := t.TempDir()
		writeFiles(t, root, tt.files)
		writeFiles(t, root, noise)
		want := slices.Collect(maps.Keys(tt.files))
		if tt.link != "" {
			if err := os.Symlink(tt.link, filepath.Join(root, ".jp/link")); err != nil {
				t.Fatal(err)
			}
			want = append(want, ".jp/link")
		}
		if err := os.Symlink("me@host.1:2", filepath.Join(root, ".jp/.#config.toml")); err != nil {
			t.Fatal(err)
		}
		if tt.name == "other names" {
			want = slices.DeleteFunc(want, func(key string) bool { return key == ".jp/~" })
		}
		if tt.count {
			want = slices.Concat(want, slices.Collect(maps.Keys(noise)), []string{".jp/.#config.toml"})
		}
		slices.Sort(want)
		c := mustContribute(t, root)
		if got := slices.Sorted(maps.Keys(c.Stamps)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.name, got, want)
		}
		for key := range noise {
			if _, err := fs.ReadFile(c.FS(), key); tt.count != (err == nil) || err != nil && !errors.Is(err, errEditorFile) {
				t.Errorf("%s: read %s: %v", tt.name, key, err)
			}
			if tt.count != (c.Data[key] != nil) {
				t.Errorf("%s: %s has data %v", tt.name, key, c.Data[key] != nil)
			}
		}
		list, err := fs.ReadDir(c.FS(), ".jp")
		if there := slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == "config.toml~" }); err != nil || there != tt.count {
			t.Errorf("%s: listed %v, %v", tt.name, there, err)
		}
	}
}

// TestTrustLocked waits for whoever changes the record, and gives up with its context.
func TestTrustLocked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trust-0.json")
	unlock, err := LockFile(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if _, err := LockFile(ctx, file); err != why {
		t.Errorf("lockFile = %v, want %v", err, why)
	}
	unlock()
	again, err := LockFile(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// What jp lacks is no fault of the workspace's.
func TestUnfit(t *testing.T) {
	c := Files{Root: "/w"}
	for _, test := range []struct {
		err  error
		want string
		is   exit.Status
	}{
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, "workspace /w: .jp/x: too many open files", exit.Failed},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOMEM}, "workspace /w: .jp/x: cannot allocate memory", exit.Failed},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "workspace /w: cannot be trusted: .jp/x: permission denied", exit.Refused},
		{ErrNotText, "workspace /w: cannot be trusted: .jp/x: is not UTF-8", exit.Refused},
	} {
		if r := console.Explain(c.Unfit(".jp/x", test.err)); r.Message != test.want || r.Status != test.is {
			t.Errorf("unfit(%v) = %q, status %d; want %q, %d", test.err, r.Message, r.Status, test.want, test.is)
		}
	}
}

// TestLinkStampsDiffer: a link whose target reads like the stamp of another link and its content is
// not taken for that.
func TestLinkStampsDiffer(t *testing.T) {
	const text = "[assistant]\n"
	sum := sha256.Sum256([]byte(text))
	for _, target := range []string{
		"notes.txt sha256:" + hex.EncodeToString(sum[:]),
		`notes.txt" sha256:` + hex.EncodeToString(sum[:]),
		`notes.txt\" sha256:` + hex.EncodeToString(sum[:]),
	} {
		g, root := gateAt(t, map[string]string{".jp/notes.txt": text})
		link := filepath.Join(root, ".jp", "config.toml")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		j, err := g.Judge(context.Background(), root)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Record(context.Background(), &j, Shown{}); err != nil {
			t.Fatal(err)
		}
		if data, err := fs.ReadFile(j.Files.FS(), ".jp/config.toml"); err == nil {
			t.Errorf("%s: reads %q, which it does not lead to", target, data)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("notes.txt", link); err != nil {
			t.Fatal(err)
		}
		if j, err = g.Judge(context.Background(), root); err != nil || j.OK() {
			t.Errorf("%s: %s, %v; want changed", target, j.Status(), err)
		}
	}
}
