package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/workspace"
	"jp/tools/files"
)

// Check returns the error that would stop every query because of $JP_RECORD or $JP_REPLAY. It makes
// no file. With $JP_REPLAY it returns the tape of the replay, otherwise nil. In a folder it checks
// every recording, and returns the tape of the last one.
func Check(con *console.Console, ws *workspace.Workspace) (*Tape, error) {
	record, replay := con.Getenv(recordVariable), con.Getenv(replayVariable)
	switch {
	case record != "" && replay != "":
		return nil, command.ErrMixed("--record", "--replay")
	case record != "":
		return nil, checkRecord(con, ws, record)
	case replay != "":
		return checkReplay(con, ws, replay)
	}
	return nil, nil
}

func checkRecord(con *console.Console, ws *workspace.Workspace, word string) error {
	missing := false
	file, err := tapeFile(con, word, "", nil, func(dir string) error {
		missing = true
		return canMakeFolder(dir)
	})
	switch {
	case err != nil:
		return exit.Usagef("--record %s: cannot be made: %v", word, files.Reason(err))
	case missing:
		return checkState(con)
	}
	_, _, err = prepare(con, ws, file, "")
	return err
}

// canMakeFolder returns the error that making a missing folder, and its missing parents, would
// return, as far as that can be known.
func canMakeFolder(dir string) error {
	for {
		above := filepath.Dir(dir)
		info, err := os.Stat(above)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			dir = above
		case err != nil:
			return err
		case !info.IsDir():
			return syscall.ENOTDIR
		default:
			if err := files.CanMake(dir); errors.Is(err, fs.ErrExist) { // a file
				return syscall.ENOTDIR
			} else if err != nil {
				return err
			}
			return nil
		}
	}
}

func checkReplay(con *console.Console, ws *workspace.Workspace, word string) (t *Tape, err error) {
	file, _ := tapeFile(con, word, "", nil, func(string) error { return nil })
	if file == word {
		t, _, err = prepare(con, ws, "", word)
		return t, err
	}
	entries, err := os.ReadDir(con.Abs(word))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("--replay %s: %v", word, files.Reason(err))
	}
	for _, e := range entries {
		if !recordingNames().MatchString(e.Name()) {
			continue
		}
		if t, _, err = prepare(con, ws, "", filepath.Join(word, e.Name())); err != nil {
			return nil, err
		}
	}
	if t == nil {
		return nil, notAsRecorded("%s: no request was recorded: there are no recordings in this folder", word)
	}
	return t, nil
}
