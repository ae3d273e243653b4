package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"jp/tools/brief"
	"jp/tools/files"
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
		return "", fmt.Errorf("%s: is %s already", VisiblePath(p.shown), files.Kind(p.info.Mode()))
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

// makeFolders makes the missing folders of p and moves p.dir into the innermost. finish is never
// nil. It closes the other folders and, with undo, removes those that were made, unless something
// is in them by now.
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
			return finish, files.Reason(err)
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

// enterNew opens the folder name of dir, which was just made.
func (f *Files) enterNew(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err == nil && !info.IsDir() {
		err = errChanged
	}
	if err != nil {
		return nil, files.Reason(err)
	}
	return f.enter(dir, name, info)
}

// create writes a new file, which appears with all of its content or not at all.
func create(dir *os.Root, name string, content []byte) error {
	err := files.MakeIn(dir, name, content, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return errors.New("exists already")
	}
	return files.Reason(err)
}

// replace replaces the content of the file name, which was info when it was looked at. A file that
// has changed since stays, and so does one that its mode lets nobody write: renaming would not ask.
func replace(dir *os.Root, name string, info fs.FileInfo, content []byte) error {
	if info.Mode().Perm()&0o222 == 0 {
		return errors.New("is read-only by its mode")
	}
	err := files.ReplaceIn(dir, name, content, info)
	if errors.Is(err, files.ErrChanged) {
		return fmt.Errorf("%w: read it again", err)
	}
	return files.Reason(err)
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
		return "", named(p.shown, files.Reason(err))
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

// apply makes the edit and returns the new text and the lines it is in.
func (e edit) apply(text string) (out, where string, err error) {
	switch n := strings.Count(text, e.Old); {
	case e.Old == "":
		return "", "", errors.New("old is empty")
	case e.Old == e.New:
		return "", "", errors.New("old and new are the same")
	case n == 0:
		return "", "", fmt.Errorf("old does not occur%s", e.nearMiss(text))
	case n > 1 && !e.All:
		return "", "", fmt.Errorf("old occurs %d times, in lines %s: give more of what is around it, or all = true", n, linesOf(text, e.Old, 5))
	case n > 1 && len(text)+n*(len(e.New)-len(e.Old)) > maxEditable:
		return "", "", fmt.Errorf("would make it larger than %s", brief.Size(maxEditable))
	case n > 1:
		return strings.ReplaceAll(text, e.Old, e.New), fmt.Sprintf("%d times, in lines %s", n, linesOf(text, e.Old, 5)), nil
	}
	return strings.Replace(text, e.Old, e.New, 1), "line " + linesOf(text, e.Old, 1), nil
}

// nearMiss says how old differs from something in text, if that is known.
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
