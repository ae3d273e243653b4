package run

import (
	"errors"
	"path/filepath"
	"testing"

	"jp/convstore"
)

// TestCloseUnmakes: a run that ends before its turn leaves no conversation behind that it has made, whether or not it came to
// hold its lock.
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
			if r.Log, err = store.Lock(t.Context(), r.Conv.ID); err != nil {
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
