package profiles

import (
	"io/fs"
	"path/filepath"

	"jp/tools/files"
)

// This is the only file of the package that opens files: those outside of a workspace, where the
// user's own rights are the bound.

// readDisk returns the bytes of a regular file outside of the workspace's .jp, and its identity.
func readDisk(file string) ([]byte, fs.FileInfo, error) {
	return files.ReadRegular(files.Disk{}, file, maxFileBytes, 0)
}

// folderOnDisk is the file system below a folder outside of the workspace's .jp.
func folderOnDisk(dir string) fs.FS {
	return folderFS(func(name string) (fs.File, error) {
		file, err := files.Disk{}.OpenFile(filepath.Join(dir, filepath.FromSlash(name)), files.Reading, 0)
		if err != nil {
			return nil, err
		}
		return file, nil
	})
}
