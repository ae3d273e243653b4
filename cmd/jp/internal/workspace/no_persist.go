package workspace

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/vanishing"
	"jp/convstore"
)

// vanishingName begins the name of the folder of a run with --no-persist.
const vanishingName = "jp-no-persist-"

// removeVanishing removes the store of a run with --no-persist that is ended by force. If it
// cannot, the next run does.
func (w *Workspace) removeVanishing() {
	if dir := w.vanishing.Load(); dir != nil {
		dir.Clear()
	}
}

// MakeStore makes a store for one run, and returns the function that removes it. It is in memory
// where the system has a place for that. First it removes what killed runs have left.
func (w *Workspace) MakeStore() (st *convstore.Store, remove func(), err error) {
	places := w.vanishingPlaces()
	for _, place := range places {
		vanishing.Sweep(place, vanishingName)
	}
	dir, err := vanishing.Make(places[0], vanishingName)
	if err != nil {
		return nil, nil, fmt.Errorf("--no-persist: %w", err)
	}
	w.vanishing.Store(dir)
	remove = func() {
		if err := dir.Remove(); err != nil {
			w.Con.Warn("--no-persist: %v", err)
		}
	}
	if st, err = convstore.Open(dir.Path, convstore.Options{}); err != nil {
		remove()
		return nil, nil, exit.Usagef("--no-persist: %v", err).WithHint("set XDG_RUNTIME_DIR or TMPDIR to a folder for temporary files")
	}
	return st, remove, nil
}

// vanishingPlaces returns the folders where a vanishing store may be, the first one for this run.
func (w *Workspace) vanishingPlaces() (places []string) {
	if top := w.Con.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(top) {
		if info, err := os.Stat(top); err == nil && info.IsDir() {
			places = append(places, top)
		}
	}
	return append(places, cmp.Or(w.Con.Getenv("TMPDIR"), os.TempDir()))
}
