package files

import (
	"os"
	"path/filepath"
	"slices"
)

// MountList is where file systems are mounted.
type MountList struct {
	Kernel []string // folders of file systems like /proc and /sys
	all    []mount  // those of devices that are mounted more than once
}

// mount is a folder of a file system that is seen at another path.
type mount struct {
	device string
	root   string // folder of the file system
	at     string // path where it is seen
}

// shared leaves out what is mounted once and so has no other name.
func (l MountList) shared() MountList {
	times := map[string]int{}
	for _, m := range l.all {
		times[m.device]++
	}
	l.all = slices.DeleteFunc(l.all, func(m mount) bool { return times[m.device] == 1 })
	return l
}

// Names returns path, absolute and without links, and all other paths of the same file or of
// folders in it, as bind mounts and mounts of subvolumes make them.
func (l MountList) Names(path string) []string {
	names := []string{path}
	for _, in := range l.all {
		if Within(in.at, path) {
			names = l.add(names, in, path)
		}
	}
	return names
}

// NamesBelow is Names, with the other paths of what is mounted below path.
func (l MountList) NamesBelow(path string) []string {
	names := l.Names(path)
	for _, in := range l.all {
		if in.at != path && Within(path, in.at) {
			names = l.add(names, in, in.at)
		}
	}
	return names
}

// add adds to names the other names of path, if in is where it is seen, and of folders in it. A
// mount that was made later may hide in, or a part of it.
func (l MountList) add(names []string, in mount, path string) []string {
	inside := filepath.Join(in.root, below(in.at, path))
	for _, m := range l.all {
		name, part := m.at, path
		switch {
		case m.device != in.device:
			continue
		case Within(m.root, inside):
			name = filepath.Join(m.at, below(m.root, inside))
		case Within(inside, m.root):
			part = filepath.Join(path, below(inside, m.root))
		default:
			continue
		}
		// What is hidden is another file, and NFS does not say what is mounted.
		if name != part && !slices.Contains(names, name) && sameFile(name, part) {
			names = append(names, name)
		}
	}
	return names
}

// below is the part of path behind dir, which it is within.
func below(dir, path string) string { return filepath.Clean(path)[len(filepath.Clean(dir)):] }

// sameFile reports whether both paths lead to the same file; where b is not there yet, whether the
// folders do in which they would be.
func sameFile(a, b string) bool {
	for {
		is, err := os.Lstat(b)
		if err == nil {
			there, err := os.Lstat(a)
			return err == nil && os.SameFile(there, is)
		}
		if !os.IsNotExist(err) || a == "/" || b == "/" {
			return false
		}
		a, b = filepath.Dir(a), filepath.Dir(b)
	}
}
