package conversation

import (
	"fmt"
	"path/filepath"
	"testing"

	"jp/convstore"
)

// TestRemoveShown: what another jp makes below a conversation while a person is asked is not removed
// with it, nor anything else then. What it removes below is gone already.
func TestRemoveShown(t *testing.T) {
	st, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	root, err := st.Create(t.Context(), convstore.New{})
	if err != nil {
		t.Fatal(err)
	}
	shown := []convstore.ID{root.ID}
	fork := func() {
		t.Helper()
		c, err := st.Fork(t.Context(), shown[len(shown)-1], convstore.Fork{})
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, c.ID)
	}
	for range 4 {
		fork()
	}
	o := removeOptions{cascade: true}
	check := func(what string, named, below int, gone convstore.ID, want string) {
		t.Helper()
		if gone != 0 {
			if _, err := st.Remove(t.Context(), gone, convstore.RemoveOptions{Cascade: true}); err != nil {
				t.Fatal(err)
			}
		}
		removed, err := removeShown(t.Context(), st, shown[:named], shown[named:below], o)
		if got := fmt.Sprintf("%v, %v", removed, err); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	check("one more", 1, 2, 0, fmt.Sprintf("[], conversation %s: one was made below it after the question; nothing was removed", shown[1]))
	check("a named one and one below it are gone", 4, 5, shown[3], fmt.Sprintf("[], conversation %s: not found", shown[3]))
	check("two below are gone", 1, 5, 0, fmt.Sprintf("%v, <nil>", shown[:3]))
	check("all are gone", 1, 5, 0, fmt.Sprintf("[], conversation %s: not found", root.ID))
}
