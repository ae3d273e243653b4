//go:build !linux

package file

import "os"

// Unnamed makes a file in a folder and removes its name at once.
func Unnamed(dir string) (*os.File, error) { return unlinked(dir) }

// Nameless makes a file that gets its name when name is called. Until then it has a temporary name,
// which stays if the process is killed.
func Nameless(dir, pattern string) (file *os.File, name func(path string) error, err error) {
	return named(dir, pattern)
}
