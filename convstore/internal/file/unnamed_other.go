//go:build !linux

package file

import "os"

// Unnamed makes a file in a folder whose name is gone at once.
func Unnamed(dir string) (*os.File, error) { return unlinked(dir) }

// Nameless makes a file that gets its name by name. Until then it has another one, which stays when
// the process is killed.
func Nameless(dir, pattern string) (file *os.File, name func(path string) error, err error) {
	return named(dir, pattern)
}
