package fs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"jp/tools/brief"
)

// createFile is fs_create_file.
func createFile(ctx context.Context, f *Files, _ int, raw json.RawMessage) (string, error) {
	args, err := arguments[struct {
		Path      string `json:"path"`
		Content   string `json:"content"`
		Overwrite bool   `json:"overwrite"`
	}](raw)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(args.Path, "/") {
		return "", fmt.Errorf("%s: names a folder, not a file", VisiblePath(args.Path))
	}
	p, err := f.find(args.Path, true)
	if err != nil {
		return "", err
	}
	defer func() { p.Close() }()
	switch {
	case p.info != nil && !p.info.Mode().IsRegular():
		return "", fmt.Errorf("%s: is %s already", VisiblePath(p.shown), Kind(p.info.Mode()))
	case p.info != nil && !args.Overwrite:
		return "", fmt.Errorf("%s: exists already: fs_modify_file edits it, overwrite = true replaces it", VisiblePath(p.shown))
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case p.info != nil:
		if err := replace(p.dir, p.name, p.info, []byte(args.Content)); err != nil {
			return "", named(p.shown, err)
		}
		return fmt.Sprintf("%s: replaced, %s", VisiblePath(p.shown), brief.Size(len(args.Content))), nil
	}
	finish, err := f.makeFolders(p)
	if err == nil {
		err = create(p.dir, p.name, []byte(args.Content))
	}
	if finish(err != nil); err != nil {
		return "", named(p.shown, err)
	}
	return fmt.Sprintf("%s: created, %s", VisiblePath(p.shown), brief.Size(len(args.Content))), nil
}

// makeFolders makes the folders that p stands in and moves p.dir into the
// innermost. finish, which is never nil, closes the others and with undo
// removes those that were made, unless something is in them by now.
func (f *Files) makeFolders(p *place) (finish func(undo bool), err error) {
	type outer struct {
		dir  *os.Root
		name string // of the folder that was made in it; "" = none
	}
	var all []outer
	finish = func(undo bool) {
		for i := len(all) - 1; i >= 0; i-- {
			if undo && all[i].name != "" {
				_ = all[i].dir.Remove(all[i].name)
			}
			all[i].dir.Close()
		}
	}
	for _, name := range p.missing {
		o := outer{dir: p.dir}
		if err := p.dir.Mkdir(name, 0o777); err == nil {
			o.name = name
		} else if !errors.Is(err, fs.ErrExist) {
			return finish, Reason(err)
		}
		sub, err := f.enterNew(p.dir, name)
		if err != nil {
			if o.name != "" {
				_ = p.dir.Remove(name)
			}
			return finish, err
		}
		all = append(all, o)
		p.dir = sub
	}
	return finish, nil
}

// enterNew opens the folder name of dir that was just made.
func (f *Files) enterNew(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err == nil && !info.IsDir() {
		err = errChanged
	}
	if err != nil {
		return nil, Reason(err)
	}
	return f.enter(dir, name, info)
}

// create writes a new file, which appears with all of its content or not at all.
func create(dir *os.Root, name string, content []byte) error {
	temp, err := writeTemp(dir, content, nil)
	if err != nil {
		return err
	}
	// A link, unlike a rename, fails where something has appeared meanwhile.
	err = dir.Link(temp, name)
	removeErr := dir.Remove(temp)
	if errors.Is(err, fs.ErrExist) {
		return errors.New("exists already")
	}
	if err == nil {
		if removeErr != nil {
			return Reason(removeErr)
		}
		return syncDir(dir)
	}
	// A file system without hard links.
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return Reason(err)
	}
	if err := fill(file, content); err != nil {
		_ = dir.Remove(name)
		return err
	}
	return syncDir(dir)
}

// replace gives the file name, which was info when it was looked at, another
// content: at once and keeping its mode. A file that has changed since stays,
// and so does one that its mode lets nobody write, which a rename would not ask.
func replace(dir *os.Root, name string, info fs.FileInfo, content []byte) error {
	if info.Mode().Perm()&0o222 == 0 {
		return errors.New("is read-only by its mode")
	}
	temp, err := writeTemp(dir, content, info)
	if err != nil {
		return err
	}
	now, err := dir.Lstat(name)
	if err == nil && (!os.SameFile(info, now) || now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime())) {
		err = errors.New("was changed by someone else meanwhile: read it again")
	}
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		_ = dir.Remove(temp)
		return Reason(err)
	}
	return syncDir(dir)
}

// writeTemp writes content to a new file in dir, on disk when it returns. like
// is the file whose mode, owner and group it gets; nil = those of a new file.
func writeTemp(dir *os.Root, content []byte, like fs.FileInfo) (name string, err error) {
	name = ".jp-" + rand.Text() + ".tmp"
	perm := fs.FileMode(0o666)
	if like != nil {
		perm = 0o600
	}
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", Reason(err)
	}
	if like != nil {
		if is, ok := like.Sys().(*syscall.Stat_t); ok {
			_ = file.Chown(int(is.Uid), int(is.Gid)) // only root can give files away
		}
		if err := file.Chmod(like.Mode().Perm()); err != nil {
			file.Close()
			_ = dir.Remove(name)
			return "", Reason(err)
		}
	}
	if err := fill(file, content); err != nil {
		_ = dir.Remove(name)
		return "", err
	}
	return name, nil
}

// fill writes content to file, syncs and closes it.
func fill(file *os.File, content []byte) error {
	_, err := file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return Reason(err)
	}
	return nil
}

// syncDir makes what was linked or renamed in dir last.
func syncDir(dir *os.Root) error {
	self, err := dir.Open(".")
	if err != nil {
		return Reason(err)
	}
	defer self.Close()
	if err := self.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems cannot
		return Reason(err)
	}
	return nil
}

// edit is one edit of fs_modify_file.
type edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"all"`
}

// modifyFile is fs_modify_file.
func modifyFile(ctx context.Context, f *Files, _ int, raw json.RawMessage) (string, error) {
	args, err := arguments[struct {
		Path  string `json:"path"`
		Edits []edit `json:"edits"`
	}](raw)
	if err != nil {
		return "", err
	}
	p, err := f.find(args.Path, true)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if p.info == nil {
		return "", fmt.Errorf("%s: does not exist: fs_create_file makes it", VisiblePath(p.shown))
	}
	if p.info.Size() > maxEditable {
		return "", fmt.Errorf("%s: is larger than %s", VisiblePath(p.shown), brief.Size(maxEditable))
	}
	file, err := openRegular(p.dir, p.name, p.info)
	if err != nil {
		return "", named(p.shown, err)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxEditable+1))
	file.Close()
	switch {
	case err != nil:
		return "", named(p.shown, Reason(err))
	case len(content) > maxEditable:
		return "", fmt.Errorf("%s: is larger than %s", VisiblePath(p.shown), brief.Size(maxEditable))
	case bytes.IndexByte(content[:min(len(content), binaryProbe)], 0) >= 0:
		return "", fmt.Errorf("%s: is a binary file", VisiblePath(p.shown))
	}
	text, done := string(content), make([]string, len(args.Edits))
	for i, e := range args.Edits {
		if text, done[i], err = e.apply(text); err != nil {
			return "", fmt.Errorf("%s: edit %d: %w; nothing was written", VisiblePath(p.shown), i+1, err)
		}
		if len(text) > maxEditable {
			return "", fmt.Errorf("%s: edit %d makes it larger than %s; nothing was written", VisiblePath(p.shown), i+1, brief.Size(maxEditable))
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	if err := replace(p.dir, p.name, p.info, []byte(text)); err != nil {
		return "", named(p.shown, err)
	}
	return fmt.Sprintf("%s: %s made: %s", VisiblePath(p.shown), brief.Count(len(done), "edit"), brief.Shorten(strings.Join(done, "; "), 2000)), nil
}

// apply makes the edit and says where.
func (e edit) apply(text string) (out, where string, err error) {
	switch n := strings.Count(text, e.Old); {
	case e.Old == "":
		return "", "", errors.New("old is empty")
	case e.Old == e.New:
		return "", "", errors.New("old and new are the same")
	case n == 0:
		return "", "", fmt.Errorf("old does not occur%s", e.nearMiss(text))
	case n > 1 && !e.All:
		return "", "", fmt.Errorf("old occurs %d times, in lines %s: give more of what stands around it, or all = true", n, linesOf(text, e.Old, 5))
	case n > 1 && len(text)+n*(len(e.New)-len(e.Old)) > maxEditable:
		return "", "", fmt.Errorf("would make it larger than %s", brief.Size(maxEditable))
	case n > 1:
		return strings.ReplaceAll(text, e.Old, e.New), fmt.Sprintf("%d times, in lines %s", n, linesOf(text, e.Old, 5)), nil
	}
	return strings.Replace(text, e.Old, e.New, 1), "line " + linesOf(text, e.Old, 1), nil
}

// nearMiss says what of old differs, where that can be told.
func (e edit) nearMiss(text string) string {
	if strings.Contains(text, "\r\n") && strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), e.Old) {
		return `: the lines of this file end in \r\n`
	}
	if at := strings.Index(squeeze(text), squeeze(e.Old)); at >= 0 && strings.TrimSpace(e.Old) != "" {
		line := 1 + strings.Count(squeeze(text)[:at], "\n")
		return fmt.Sprintf(": something alike with other spaces is in line %d", line)
	}
	return ""
}

// squeeze is s without spaces at the ends of its lines and with single ones in them.
func squeeze(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.Join(strings.Fields(line), " "))
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// linesOf lists the lines in which the occurrences of old begin, up to most.
func linesOf(text, old string, most int) string {
	var out []string
	line, from := 1, 0
	for {
		i := strings.Index(text[from:], old)
		if i < 0 {
			break
		}
		if len(out) == most {
			out = append(out, "...")
			break
		}
		line += strings.Count(text[from:from+i], "\n")
		out = append(out, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		from += i + len(old)
	}
	return strings.Join(out, ", ")
}
