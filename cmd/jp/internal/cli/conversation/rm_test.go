package conversation

import (
	"path/filepath"
	"testing"

	"jp/convstore"
)

// TestRemoveShown: what another jp makes below a conversation while a person is asked is not removed
// with it, nor anything else then.
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
	fork()
	fork()
	o := removeOptions{cascade: true}
	want := "conversation " + shown[1].String() + ": one was made below it after the question; nothing was removed"
	if removed, err := removeShown(t.Context(), st, shown[:2], o); err == nil || err.Error() != want {
		t.Errorf("with one more: %v, %v, want %s", removed, err, want)
	}
	if removed, err := removeShown(t.Context(), st, shown, o); err != nil || len(removed) != 3 {
		t.Errorf("with those that were shown: %v, %v", removed, err)
	}
}
