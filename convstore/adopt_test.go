package convstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jp/convstore/internal/file"
)

// TestAdoptStore: a workspace takes over the store of one that is gone, by its path or by the
// store's folder, and never one that is somebody's or beside its own.
func TestAdoptStore(t *testing.T) {
	p := newPlaces(t)
	env := p.env("XDG_STATE_HOME", p.path("state"))
	adopt := func(workspace, from string) (string, error) { return Adopt(t.Context(), env, p.path(workspace), from) }
	refused := func(why, workspace, from string) {
		t.Helper()
		var place *PlaceError
		if dir, err := adopt(workspace, from); !errors.As(err, &place) || !strings.Contains(place.Reason, why) {
			t.Errorf("adopting %s for %s = %s, %v, want a *PlaceError that it %s", from, workspace, dir, err, why)
		}
	}
	makeWorkspace(t, p.path("old"))
	dir := p.use("old")
	makeWorkspace(t, p.path("new"))
	refused("is still there", "new", p.path("old"))
	refused("is still there", "new", dir)
	refused("is neither", "new", p.path("nowhere"))
	refused("is neither", "new", p.path("state"))
	if err := os.RemoveAll(p.path("old")); err != nil {
		t.Fatal(err)
	}
	if got, err := adopt("new", p.path("old")); got != dir || err != nil {
		t.Fatalf("Adopt = %s, %v, want %s", got, err, dir)
	}
	if got := p.use("new"); got != dir {
		t.Errorf("afterwards: %s, want %s", got, dir)
	}
	if got, err := adopt("new", dir); got != dir || err != nil {
		t.Errorf("adopting its own = %s, %v", got, err)
	}

	// One that has conversations keeps them; an empty store makes room.
	makeWorkspace(t, p.path("other"))
	other := p.use("other")
	if err := os.RemoveAll(p.path("new")); err != nil {
		t.Fatal(err)
	}
	refused("holds conversations", "other", dir)
	s, err := Open(other, Options{Workspace: p.path("other")})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range mustList(t, s.View, Filter{Hidden: true}) {
		if _, err := s.Remove(t.Context(), id, RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := adopt("other", dir); got != dir || err != nil {
		t.Fatalf("Adopt beside an empty store = %s, %v, want %s", got, err, dir)
	}
	if got := p.use("other"); got != dir {
		t.Errorf("afterwards: %s, want %s", got, dir)
	}
	if _, err := os.Stat(filepath.Join(other+".replaced-1", file.StoreName)); err != nil {
		t.Errorf("the empty store is gone: %v", err)
	}
	for _, other := range []Env{p.env("JP_STORE", "/x", "XDG_STATE_HOME", p.path("state")), {Get: env.Get, Override: "/x"}} {
		var place *PlaceError
		if _, err := Adopt(t.Context(), other, p.path("other"), dir); !errors.As(err, &place) {
			t.Errorf("Adopt where the place is fixed: %v", err)
		}
	}
}
