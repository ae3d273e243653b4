package fs

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"jp/tools/brief"
	"jp/tools/files"
)

// listFiles is fs_list_files.
func listFiles(ctx context.Context, f *Files, limit int, raw json.RawMessage) (string, error) {
	args, err := arguments[struct {
		Path  string `json:"path"`
		Glob  string `json:"glob"`
		Depth int    `json:"depth"`
		Limit int    `json:"limit"`
	}](raw)
	if err != nil {
		return "", err
	}
	glob, err := newFilter(args.Glob)
	if err != nil {
		return "", err
	}
	p, err := f.find(args.Path, false)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if !p.info.IsDir() {
		return "", fmt.Errorf("%s: is %s, not a folder", VisiblePath(p.shown), files.Kind(p.info.Mode()))
	}
	w, top, err := newWalk(ctx, f, p, glob)
	if err != nil {
		return "", err
	}
	defer top.dir.Close()
	l := &lister{walk: w, depth: args.Depth, limit: args.Limit, room: limit - SmallResult/4}
	if err := l.folder(top); err != nil {
		return "", err
	}
	switch {
	case l.stopped != "":
		fmt.Fprintf(&l.out, "[stopped at %s: there are more; narrow path, glob or depth]\n", l.stopped)
	case l.count == 0 && args.Glob != "":
		l.out.WriteString("[no file matches the glob]\n")
	case l.count == 0:
		l.out.WriteString("[no files]\n")
	}
	return l.out.String(), nil
}

// lister writes one line for each file.
type lister struct {
	*walk
	depth, limit int
	out          strings.Builder
	room         int // bytes
	count        int
	stopped      string // reason why the listing stopped; "" = it goes on
}

// folder lists the files in at and below it.
func (l *lister) folder(at folder) error {
	entries, ig, err := l.entries(at)
	if err != nil && at.deep > 0 && l.ctx.Err() == nil {
		l.line(at.path, fmt.Sprintf("/ [not listed: %v]", err))
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := join(at.path, e.Name())
		switch {
		case l.stopped != "":
			return nil
		case e.IsDir() && l.depth > 0 && at.deep+1 >= l.depth:
			if l.wants(path) {
				l.line(path, "/")
			}
		case e.IsDir():
			sub, err := l.sub(at, e.Name(), ig)
			if err != nil {
				l.line(path, fmt.Sprintf("/ [not listed: %v]", shortReason(err)))
				continue
			}
			err = l.folder(sub)
			sub.dir.Close()
			if err != nil {
				return err
			}
		case !l.wants(path):
		case e.Type()&fs.ModeSymlink != 0:
			target, err := at.dir.Readlink(e.Name())
			if err != nil {
				target = "?"
			}
			l.line(path, " -> "+VisiblePath(target))
		case !e.Type().IsRegular():
			l.line(path, " ["+files.Kind(e.Type())+"]")
		default:
			l.line(path, "")
		}
	}
	return nil
}

// line writes a path and then rest.
func (l *lister) line(path, after string) {
	line := VisiblePath(l.name(path)) + after + "\n"
	switch {
	case l.stopped != "":
	case l.count == l.limit:
		l.stopped = fmt.Sprintf("%d entries", l.limit)
	case l.out.Len()+len(line) > l.room:
		l.stopped = brief.Size(l.room)
	default:
		l.count++
		l.out.WriteString(line)
	}
}

// shortReason is an error without its path, which is before it anyway.
func shortReason(err error) string {
	if a, ok := err.(*AccessError); ok {
		return a.Msg
	}
	return err.Error()
}
