package gate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/model"
)

const key = "sk-a-key-that-nobody-may-see"

// open returns a gate in dir as another process would have it, and what it warned of.
func open(dir string) (*Gate, *[]string) {
	warnings := &[]string{}
	return New(dir, model.Account{Endpoint: "https://api.example/", Key: key, Model: "large"}, func(err error) { *warnings = append(*warnings, err.Error()) }), warnings
}

// enter enters and returns the waits that were told.
func enter(t *testing.T, ctx context.Context, g *Gate) (model.Pass, []time.Duration, error) {
	t.Helper()
	var told []time.Duration
	p, err := g.Enter(ctx, func(d time.Duration) { told = append(told, d) })
	return p, told, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenGateLeavesNoTrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jp", "gates")
	g, warnings := open(dir)
	p, told, err := enter(t, t.Context(), g)
	if err != nil || !p.Open || told != nil || len(*warnings) > 0 {
		t.Errorf("Enter = %+v, %v, waits %v, warnings %v", p, err, told, *warnings)
	}
	g.Heard(p)
	if _, err := os.Lstat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("%s was made", filepath.Dir(dir))
	}
}

func TestLimitIsShared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gates")
	first, warnings := open(dir)
	p, _, err := enter(t, t.Context(), first)
	must(t, err)
	if !first.Limited(p, 20*time.Millisecond) {
		t.Fatalf("Limited = false: %v", *warnings)
	}
	second, _ := open(dir)
	p2, told, err := enter(t, t.Context(), second)
	if err != nil || p2.Open || len(told) != 1 || p2.At < p.At+20*time.Millisecond {
		t.Errorf("Enter = %+v, %v, waits %v; limit met at %v", p2, err, told, p.At)
	}
	p3, _, err := enter(t, t.Context(), first)
	if err != nil || p3.At < p2.At+firstLeast {
		t.Errorf("the next one goes at %v, %v after the one before, want at least %v", p3.At, p3.At-p2.At, firstLeast)
	}
	for p := p3; !p.Open; p, _, _ = enter(t, t.Context(), first) {
		second.Heard(p)
	}
	path, err := first.find()
	must(t, err)
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("the open gate's file = %v, %v, want an empty one", info, err)
	}

	first.Limited(model.Pass{At: first.now()}, time.Minute)
	for name, a := range map[string]model.Account{
		"another key":      {Endpoint: "https://api.example/", Key: "another", Model: "large"},
		"another model":    {Endpoint: "https://api.example/", Key: key, Model: "small"},
		"another endpoint": {Endpoint: "https://api.example/v1/", Key: key, Model: "large"},
	} {
		if p, told, err := enter(t, t.Context(), New(dir, a, nil)); err != nil || !p.Open || told != nil {
			t.Errorf("%s: Enter = %+v, %v, waits %v", name, p, err, told)
		}
	}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(path+string(b), key) || strings.Contains(path+string(b), "example") {
			t.Errorf("%s tells the key or the endpoint", path)
		}
		if info, _ := d.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		return err
	}))
}

// TestWaitEnds: with the context, with a deadline that comes too soon, and after Most whatever the
// provider asked for.
func TestWaitEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gates")
	g, _ := open(dir)
	g.Limited(model.Pass{At: g.now()}, 240*time.Hour)
	var told time.Duration
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	_, err := g.Enter(ctx, func(d time.Duration) { told = d; cancel(cause) })
	if err != cause || told <= 0 || told > Most {
		t.Errorf("cancelled: %v, told %v", err, told)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var e *model.Error
	if _, told, err := enter(t, ctx, g); !errors.As(err, &e) || e.Kind != model.KindRateLimit || e.Temporary() || told != nil {
		t.Errorf("deadline: %v, waits %v", err, told)
	}
	g.most = 10 * time.Millisecond
	if p, _, err := enter(t, t.Context(), g); err != nil || !p.Open {
		t.Errorf("after the longest wait: %+v, %v", p, err)
	}
}

// TestDeaf: who does not hear that it waits keeps nobody else in line, and sends nothing after its
// end.
func TestDeaf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gates")
	other, _ := open(dir)
	other.Limited(model.Pass{At: other.now()}, 20*time.Millisecond)
	path, err := other.find()
	must(t, err)
	deaf, _ := open(dir)
	deaf.now = func() time.Duration { // its time comes, but not yet when it is in line
		if _, err := os.Lstat(path + lineExt); err != nil {
			return now() + 10*time.Second
		}
		return now()
	}
	queued, listens, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		_, err := deaf.Enter(ctx, func(time.Duration) {
			close(queued)
			<-listens
		})
		ended <- err
	}()
	<-queued
	if p, _, err := enter(t, t.Context(), other); err != nil || p.Open {
		t.Errorf("Enter behind who does not listen = %+v, %v", p, err)
	}
	cause := errors.New("enough")
	cancel(cause)
	close(listens)
	if err := <-ended; err != cause {
		t.Errorf("Enter of who has ended = %v, want %v", err, cause)
	}
}

// TestRefusalSaysWhy: a run whose time was spent in the line is told so, and not that the limit is
// so long.
func TestRefusalSaysWhy(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for _, tt := range []struct {
		wait, waited time.Duration
		want         string
	}{
		{30 * time.Second, time.Hour, ""},
		{2 * time.Minute, 0, "rate_limit: the limit holds for another 2m0s, longer than the run may take"},
		{2 * time.Minute, 11 * time.Second, "rate_limit: the run's time is up before its turn comes: it has waited for 11s behind other requests to the model"},
	} {
		got := ""
		if err := inTime(ctx, tt.wait, tt.waited); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("inTime(%v, %v) = %q, want %q", tt.wait, tt.waited, got, tt.want)
		}
	}
}

// TestHeldLockIsNoWall: somebody who sits on a lock keeps nobody for longer than Most.
func TestHeldLockIsNoWall(t *testing.T) {
	for _, ext := range []string{"", lineExt} {
		dir := filepath.Join(t.TempDir(), "gates")
		g, _ := open(dir)
		g.Limited(model.Pass{At: g.now()}, time.Millisecond)
		path, err := g.find()
		must(t, err)
		f, err := os.OpenFile(path+ext, os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		must(t, flock(f, unix.LOCK_EX))
		g.most = 10 * time.Millisecond
		if p, _, err := enter(t, t.Context(), g); err != nil || !p.Open {
			t.Errorf("%q held: %+v, %v", ext, p, err)
		}
		f.Close()
	}
}

// TestHostileFiles: a gate that cannot be used warns once and lets everybody through; one that
// holds nonsense is open.
func TestHostileFiles(t *testing.T) {
	for name, spoil := range map[string]func(dir, path string) error{
		"a link":       func(_, path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) },
		"a folder":     func(_, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a FIFO":       func(_, path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
		"a short salt": func(dir, _ string) error { return os.WriteFile(filepath.Join(dir, fileSalt), []byte("x"), 0o600) },
		"a salt link": func(dir, _ string) error {
			salt := filepath.Join(dir, fileSalt)
			return errors.Join(os.Remove(salt), os.Symlink("/dev/zero", salt))
		},
		"everybody's folder": func(dir, path string) error { return errors.Join(os.Remove(path), os.Chmod(dir, 0o777)) },
	} {
		dir := filepath.Join(t.TempDir(), "gates")
		g, _ := open(dir)
		g.Limited(model.Pass{At: g.now()}, time.Minute)
		path, err := g.find()
		must(t, err)
		must(t, spoil(dir, path))
		g, warnings := open(dir)
		for range 2 {
			p, told, err := enter(t, t.Context(), g)
			if err != nil || !p.Open || told != nil {
				t.Errorf("%s: Enter = %+v, %v, waits %v", name, p, err, told)
			}
			if g.Limited(p, time.Minute) {
				t.Errorf("%s: Limited = true", name)
			}
		}
		if len(*warnings) != 1 {
			t.Errorf("%s: warnings %q, want one", name, *warnings)
		}
		_ = os.Chmod(dir, 0o700)
	}
	for _, text := range []string{"garbage", strings.Repeat("x", 1<<20), `{"boot":"","closed":0,"next":9223372036854775807,"interval":1000000000}`} {
		dir := filepath.Join(t.TempDir(), "gates")
		g, warnings := open(dir)
		g.Limited(model.Pass{At: g.now()}, time.Minute)
		path, err := g.find()
		must(t, err)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if p, told, err := enter(t, t.Context(), g); err != nil || !p.Open || told != nil || len(*warnings) > 0 {
			t.Errorf("%.20q: Enter = %+v, %v, waits %v, warnings %v", text, p, err, told, *warnings)
		}
		if !g.Limited(model.Pass{At: g.now()}, time.Minute) {
			t.Errorf("%.20q: Limited = false: %v", text, *warnings)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != recordSize {
			t.Errorf("%.20q: the file is not one record: %v, %v", text, info.Size(), err)
		}
	}
}
