package workspace

import (
	"cmp"
	"os"
	"path/filepath"

	"jp/cmd/jp/internal/exit"
	"jp/convstore"
	"jp/tools/vanishing"
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
	for _, place := range places {
		if st, remove, err = w.makeStoreIn(place); err == nil {
			return st, remove, nil
		}
	}
	return nil, nil, exit.Usagef("--no-persist: %v", err).WithHint("set XDG_RUNTIME_DIR or TMPDIR to a folder for temporary files")
}

func (w *Workspace) makeStoreIn(place string) (*convstore.Store, func(), error) {
	if err := os.MkdirAll(place, 0o700); err != nil {
		return nil, nil, err
	}
	dir, err := vanishing.Make(place, vanishingName)
	if err != nil {
		return nil, nil, err
	}
	w.vanishing.Store(dir)
	remove := func() {
		if err := dir.Remove(); err != nil {
			w.Con.Warn("--no-persist: %v", err)
		}
	}
	st, err := convstore.Open(dir.Path, convstore.Options{})
	if err != nil {
		remove()
		return nil, nil, err
	}
	return st, remove, nil
}

// vanishingPlaces returns the folders where a vanishing store may be, the best one first. The last
// one, for who has no folder of his own, is the only one that tools of other runs may reach.
func (w *Workspace) vanishingPlaces() (places []string) {
	if dir := w.runtimeDir(); dir != "" {
		places = append(places, dir)
	}
	if dir := w.Con.StateDir(); dir != "" {
		// The store of a workspace is in the state folder, and its name may be like vanishingName.
		places = append(places, filepath.Join(dir, "no-persist"))
	}
	return append(places, cmp.Or(w.Con.Getenv("TMPDIR"), os.TempDir()))
}

// runtimeDir is $XDG_RUNTIME_DIR/jp; "" without such a folder of the system.
func (w *Workspace) runtimeDir() string {
	if top := w.Con.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(top) {
		if info, err := os.Stat(top); err == nil && info.IsDir() {
			return filepath.Join(top, "jp")
		}
	}
	return ""
}
