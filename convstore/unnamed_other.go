//go:build !linux

package convstore

import "os"

// unnamed makes a file in a folder whose name is gone at once.
func unnamed(dir string) (*os.File, error) { return unlinked(dir) }

// nameless makes a file that gets its name by name. Until then it has another one, which stays when
// the process is killed.
func nameless(dir, pattern string) (file *os.File, name func(path string) error, err error) {
	return named(dir, pattern)
}
