package delegate

import (
	"errors"
	"path/filepath"
	"testing"

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
