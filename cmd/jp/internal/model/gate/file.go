package gate

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/model"
	"jp/tools/files"
)

// The folder has two files for each account: the state, and the line, whose lock is held by the
// first that waits. Their name is made of endpoint, model, key and a salt that is in the folder, so
// that nothing of the key can be found from it. No file is ever removed.
const (
	fileSalt = "salt"
	lineExt  = ".line"
	saltSize = 32
)

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // cannot be: the clock is one that every system has
	}
	return time.Duration(ts.Nano())
}

// find returns the path of the state, "" where no process of this user has met a limit yet.
func (g *Gate) find() (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.path != "" {
		return g.path, nil
	}
	salt, err := readSalt(g.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	g.path = filepath.Join(g.dir, name(salt, g.account))
	return g.path, nil
}

func name(salt []byte, a model.Account) string {
	mac := hmac.New(sha256.New, salt)
	fmt.Fprintf(mac, "%d %s %d %s %s", len(a.Endpoint), a.Endpoint, len(a.Model), a.Model, a.Key.Reveal())
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func readSalt(dir string) ([]byte, error) {
	f, err := openOwn(filepath.Join(dir, fileSalt), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	salt, err := io.ReadAll(io.LimitReader(f, saltSize+1))
	if err == nil && len(salt) != saltSize {
		err = fmt.Errorf("%s: is not of %d bytes", f.Name(), saltSize)
	}
	return salt, err
}

// prepare makes the folder and its salt. Of several processes the salt of the first one counts.
func (g *Gate) prepare() error {
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(g.dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || st.Uid != uint32(os.Geteuid()) || info.Mode()&0o022 != 0 {
		return fmt.Errorf("%s: is not a folder that only its user can write to", g.dir)
	}
	salt := filepath.Join(g.dir, fileSalt)
	if _, err := os.Lstat(salt); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	random := make([]byte, saltSize)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	if err := files.Make(salt, random); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// update reads the state, calls change, and writes what has changed, all under the lock of the
// state. Where there is no file the state is open; only a state that is not open makes the file.
func (g *Gate) update(ctx context.Context, path string, change func(state, time.Duration) state) (state, error) {
	f, err := openOwn(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return state{}, err
	}
	if err := lockFile(ctx, f); err != nil {
		return state{}, err
	}
	defer unlock(f)
	var buf [recordSize + 1]byte
	n, err := f.ReadAt(buf[:], 0)
	if err != nil && err != io.EOF {
		return state{}, err
	}
	now := g.now()
	was := string(buf[:n])
	s := change(parse(buf[:n], g.boot(), now), now)
	if b := s.record(); string(b) != was {
		if len(b) != n {
			err = f.Truncate(int64(len(b)))
		} else {
			err = nil
		}
		if err == nil && len(b) > 0 {
			_, err = f.WriteAt(b, 0)
		}
		if err != nil {
			return state{}, err
		}
	}
	return s, nil
}

// openOwn opens a regular file that belongs to this user. It follows no symbolic link and does not
// block.
func openOwn(path string, flag int) (*os.File, error) {
	f, _, err := files.OpenRegular(files.Disk{}, path, flag, files.NoLink|files.Own)
	return f, err
}

// lockFile takes the lock of f, first come, first served. Where it fails it closes f: at once, or,
// if ctx ends while it waits, as soon as it gets the lock, because a blocked flock cannot be
// interrupted. The kernel frees the lock of a process that dies.
func lockFile(ctx context.Context, f *os.File) error {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if err != unix.EWOULDBLOCK {
		if err != nil {
			f.Close()
			return os.NewSyscallError("flock", err)
		}
		return nil
	}
	granted := make(chan error)
	go func() {
		err := flock(f, unix.LOCK_EX)
		select {
		case granted <- err:
		case <-ctx.Done():
			unlock(f)
		}
	}()
	select {
	case err := <-granted:
		if err != nil {
			f.Close()
			return os.NewSyscallError("flock", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unlock frees the lock before the file is closed: a process that is just being started has a copy
// of the descriptor for a moment, so that closing would not free it.
func unlock(f *os.File) {
	_ = flock(f, unix.LOCK_UN)
	f.Close()
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
