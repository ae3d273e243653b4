package run

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/tools"
)

// TestCloseUnmakes: a run that ends before its turn leaves no conversation behind that it has made,
// whether or not it came to hold its lock.
func TestCloseUnmakes(t *testing.T) {
	store, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, locked := range []bool{true, false} {
		r := &Run{site: site{Store: store}, made: true}
		if r.Conv, err = store.Create(t.Context(), convstore.New{}); err != nil {
			t.Fatal(err)
		}
		if locked {
			if err := (*opening)(r).lock(t.Context(), r.Conv.ID); err != nil {
				t.Fatal(err)
			}
		}
		r.Close(t.Context())
		var gone *convstore.NotFoundError
		if _, err := store.Get(t.Context(), r.Conv.ID); !errors.As(err, &gone) {
			t.Errorf("locked %v: %v, want that it is gone", locked, err)
		}
	}
}

// TestUnsettledFreesLock: a delegation by a person that cannot be settled, here since the store is
// away, does not hold its lock.
func TestUnsettledFreesLock(t *testing.T) {
	for name, end := range map[string]func(*Run, context.Context){
		"Close":  (*Run).Close,
		"settle": func(r *Run, ctx context.Context) { r.settle(ctx, convstore.Outcome{State: convstore.StateOK}) },
	} {
		dir := filepath.Join(t.TempDir(), "store")
		store, err := convstore.Open(dir, convstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		root, err := store.Create(t.Context(), convstore.New{})
		if err != nil {
			t.Fatal(err)
		}
		scope, err := store.Below(t.Context(), root.ID)
		if err != nil {
			t.Fatal(err)
		}
		res, err := scope.Reserve(t.Context(), func(convstore.Standing) ([]convstore.Child, error) {
			return []convstore.Child{{Call: "hand-1", Profile: "child"}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		end(&Run{site: site{Store: store, env: &Env{Set: models.Set{Con: &console.Console{IO: &term.IO{Err: io.Discard}}}}}, scope: scope, hand: res[0], Conv: res[0].Child}, t.Context())
		if _, err := res[0].LockFile(); err == nil {
			t.Errorf("%s: the lock is held", name)
		}
	}
}

// TestOnAll: a sub-agent takes all processors for the tools that work in its own process, and for
// no others.
func TestOnAll(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, tt := range []struct {
		source string
		want   int
	}{{tools.SourceLocal, 1}, {tools.SourceDelegation, 1}, {tools.SourceBuiltin, runtime.NumCPU()}} {
		onAll(t.Context(), tools.Tool{Definition: tools.Definition{Source: tt.source}}, tools.Call{})
		if n := runtime.GOMAXPROCS(0); n != tt.want {
			t.Errorf("%s: %d processors, want %d", tt.source, n, tt.want)
		}
	}
}
