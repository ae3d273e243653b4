package file

import "testing"

// TestSyncDir: a store can be made, and a backup is written, where a file system syncs no folders.
func TestSyncDir(t *testing.T) {
	if err := SyncDir("/proc"); err != nil {
		t.Error(err)
	}
}
