package console

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"jp/tools/files"
)

// logFile is the trace log. The first record opens its file, so that a command which logs nothing
// makes no file. The zero value logs nothing; it is safe for concurrent use.
type logFile struct {
	path  func() string // "" = nowhere
	std   io.Writer     // for the path "-"
	state string        // the state folder; "" = none
	warn  func(string)  // is told once that the log cannot be opened; nil = nobody

	mu      sync.Mutex
	opened  bool
	w       io.Writer
	file    *os.File
	written int // bytes, since the file was opened
}

// logMax is the size at which a log is renamed to PATH.1 when it is opened. A process that has written
// so much opens it again.
const logMax = 10 << 20

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		l.opened = true
		l.open()
	}
	if l.file != nil && l.written > logMax {
		_ = l.file.Close()
		l.file, l.w, l.written = nil, nil, 0
		l.open()
	}
	if l.w != nil {
		_, _ = Escaping{l.w}.Write(p) // a log that cannot be written stops nothing
		l.written += len(p)
	}
	return len(p), nil
}

func (l *logFile) open() {
	switch path := l.path(); path {
	case "":
	case "-":
		l.w = l.std
	default:
		f, err := openLog(path, l.state)
		if err != nil {
			if l.warn != nil {
				l.warn(fmt.Sprintf("log %s: %v; nothing is logged", path, files.Reason(err)))
				l.warn = nil
			}
			return
		}
		l.file, l.w = f, f
	}
}

// openLog opens a log for appending. In its folder a tool may write, and this process may write
// everywhere: so it follows no link that a tool can have made. No tool makes one on the way to the
// state folder.
func openLog(path, state string) (*os.File, error) {
	var links files.Links
	own := false
	if state != "" {
		links.Closed, own = []string{state}, files.Within(state, path)
	}
	if !own {
		real, err := links.Resolve(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		path = real
	}
	folder, name := filepath.Split(path)
	err := os.MkdirAll(folder, 0o700)
	if err == nil && own {
		folder, err = filepath.EvalSymlinks(folder)
	}
	if err != nil {
		return nil, err
	}
	dir, err := files.OpenRoot(filepath.Clean(folder))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() > logMax {
		_ = dir.Rename(name, name+".1")
	}
	f, _, err := files.OpenRegular(dir, name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, files.NoLink)
	return f, err
}

// Close closes the file if one was opened. What is logged later goes nowhere.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	l.opened, l.file, l.w = true, nil, nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// Logger returns the trace log: warnings and errors always, more with -v.
func (c *Console) Logger() *slog.Logger {
	if c.Log.path == nil {
		c.Log.path, c.Log.std, c.Log.state = c.LogPath, stderr{c}, c.StateDir()
		c.Log.warn = func(text string) {
			if !c.InTool && !c.Called && c.LogPath() != c.ownLog() { // else the jp above says so, or nobody has named it
				c.Note("warning: %s", text)
			}
		}
	}
	level := slog.LevelInfo
	if c.Globals.Verbose > 0 {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewJSONHandler(&c.Log, &slog.HandlerOptions{Level: level})).With("pid", os.Getpid())
}

// stderr is the stream of notes: what is written appears above a tree that is drawn there.
type stderr struct{ con *Console }

func (s stderr) Write(p []byte) (int, error) { return s.con.Tree.Above(s.con.IO).Err.Write(p) }

// Libraries sends what libraries print with package log to the trace log, for as long as the process
// lives. net/http reports misbehaving servers that way, in the words of these, as often as they like
// and after the command has ended too, and stderr is not for that.
func (c *Console) Libraries() {
	log.SetFlags(0)
	log.SetOutput(&libraryLog{con: c})
}

// libraryMax is how many lines of libraries a process logs.
const libraryMax = 100

type libraryLog struct {
	con   *Console
	lines atomic.Int64
}

func (l *libraryLog) Write(p []byte) (int, error) {
	switch n := l.lines.Add(1); {
	case n < libraryMax:
		l.con.Logger().Warn(strings.TrimSpace(string(p)))
	case n == libraryMax:
		l.con.Logger().Warn("libraries report more, which is not logged")
	}
	return len(p), nil
}

// LogPath is the path of the log: from the flag, the variable, the user's config if it was read, or
// else in the state folder. - is stderr.
func (c *Console) LogPath() string {
	path := c.Getenv("JP_LOG_FILE")
	if c.Globals.logFile.Set {
		path = c.Globals.logFile.Value
	}
	switch {
	case path == "-":
		return path
	case path != "":
		return c.Abs(path)
	case c.LogDefault != "":
		return c.LogDefault
	}
	return c.ownLog()
}

// ownLog is the path of the log where nobody has named one; "" without a home.
func (c *Console) ownLog() string {
	if dir := c.StateDir(); dir != "" {
		return filepath.Join(dir, "jp.log")
	}
	return ""
}

// StateDir is $XDG_STATE_HOME/jp; "" without a home.
func (c *Console) StateDir() string {
	if dir := c.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "jp")
	}
	if home := c.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "jp")
	}
	return ""
}

// Abs resolves a path of the command line.
func (c *Console) Abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Env.Dir, path)
}
