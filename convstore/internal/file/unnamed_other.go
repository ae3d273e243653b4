//go:build !linux

package file

import "os"

// Unnamed makes a file in a folder and removes its name at once.
func Unnamed(dir string) (*os.File, error) { return unlinked(dir) }
