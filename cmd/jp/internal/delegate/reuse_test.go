package delegate

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"jp/cmd/jp/internal/rule"
	"jp/convstore"
)

// TestReuseGone: an answer that was found and removed since is a call that failed, and no failure
// of the store.
func TestReuseGone(t *testing.T) {
	st, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conv, err := st.Create(t.Context(), convstore.New{Config: convstore.Config{JSON: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	scope, err := st.Below(t.Context(), conv.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []convstore.View{st.View, scope.View} {
		o, err := reuse(t.Context(), v, convstore.Answer{ID: conv.ID + 1, Turn: 1})
		if err != nil || !errors.As(o.denied, new(*convstore.NotFoundError)) {
			t.Errorf("reuse() = %+v, %v", o, err)
		}
	}
}

// TestProfilesKept resolves profiles with overrides, of which a model may name any number.
func TestProfilesKept(t *testing.T) {
	resolved := 0
	c := &catalog{resolve: func(context.Context, string, []string) (rule.Profile, error) {
		resolved++
		return rule.Profile{}, nil
	}}
	for range 2 {
		for _, model := range []string{"a", "b", strings.Repeat("c", 1<<20)} {
			if _, err := c.profile(t.Context(), "agent/r", rule.Overrides(model)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := 2 + 2; resolved != want {
		t.Errorf("profiles were resolved %d times, want %d: the long one each time", resolved, want)
	}
}
