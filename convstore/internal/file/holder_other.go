//go:build !linux

package file

// The system does not say which process holds a lock.

func (f *Folder) holder() (name string, reads bool) { return "", false }

func (f *Folder) RunHolder(int64) string { return "" }
