package fs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"jp/tools/brief"
	"jp/tools/files"
)

// Bounds of fs_grep_files.
const (
	maxSearched  = 32 << 20  // bytes of a file that is searched
	maxSearching = 128 << 20 // bytes of all files that are searched at the same time, without small ones
	smallFile    = 256 << 10 // bytes
	maxShown     = 400       // bytes of a line that are shown
	maxSkipped   = 5         // skipped files that are named
)

// grepFiles is fs_grep_files.
func grepFiles(ctx context.Context, f *Files, limit int, raw json.RawMessage) (string, error) {
	args, err := arguments[struct {
		Pattern    string `json:"pattern"`
		Path       string `json:"path"`
		Glob       string `json:"glob"`
		IgnoreCase bool   `json:"ignore_case"`
		Literal    bool   `json:"literal"`
		Context    int    `json:"context"`
		MaxMatches int    `json:"max_matches"`
	}](raw)
	if err != nil {
		return "", err
	}
	m, err := newMatcher(args.Pattern, args.Literal, args.IgnoreCase)
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
	g := &grep{matcher: m, context: args.Context, most: args.MaxMatches, slots: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	g.buffers.New = func() any { return new([]byte) }
	if p.info.IsDir() {
		var top folder
		if g.walk, top, err = newWalk(ctx, f, p, glob); err != nil {
			return "", err
		}
		g.folder(top)
		top.dir.Close()
	} else {
		g.walk = &walk{Files: f, ctx: ctx, anchor: filepath.Dir(p.path)}
		g.file(p.dir, p.name, filepath.Base(p.path))
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return g.text(limit), nil
}

// grep searches files. Folders and groups of files are searched at the same time; the result is the
// same as that of one file after the other.
type grep struct {
	*walk
	matcher *matcher
	context int
	most    int           // matches that are shown
	slots   chan struct{} // for goroutines beside the first
	buffers sync.Pool     // of *[]byte

	mu      sync.Mutex
	found   []fileHits // by path: those that can still be among the first most
	hits    int        // in found
	more    bool       // matches were left out
	skipped []skipped
}

// fileHits are the matches in a file.
type fileHits struct {
	path   string // relative to the anchor
	binary bool
	hits   []hit
}

// hit is a line with a match.
type hit struct {
	line          int
	text          string
	before, after []string
}

type skipped struct{ path, why string }

// spawn runs f, beside the caller if there is a slot.
func (g *grep) spawn(wg *sync.WaitGroup, f func()) {
	select {
	case g.slots <- struct{}{}:
		wg.Go(func() {
			defer func() { <-g.slots }()
			f()
		})
	default:
		f()
	}
}

// folder searches the files in at and below it.
func (g *grep) folder(at folder) {
	entries, ig, err := g.entries(at)
	if err != nil {
		g.skip(at.path, err)
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	const handful = 16
	var batch []string
	flush := func() {
		if names := batch; len(names) > 0 {
			batch = nil
			g.spawn(&wg, func() {
				for _, name := range names {
					g.file(at.dir, name, join(at.path, name))
				}
			})
		}
	}
	for _, e := range entries {
		path := join(at.path, e.Name())
		switch {
		case e.IsDir():
			if g.past(path + "/") {
				continue
			}
			sub, err := g.sub(at, e.Name(), ig)
			if err != nil {
				g.skip(path, err)
				continue
			}
			g.spawn(&wg, func() {
				defer sub.dir.Close()
				g.folder(sub)
			})
		case e.Type().IsRegular() && g.wants(path):
			if batch = append(batch, e.Name()); len(batch) == handful {
				flush()
			}
		}
	}
	flush()
}

// past reports whether nothing at path or behind it can be shown any more.
func (g *grep) past(path string) bool {
	if g.ctx.Err() != nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.more && path > g.found[len(g.found)-1].path
}

// file searches one file.
func (g *grep) file(dir *os.Root, name, path string) {
	if g.past(path) {
		return
	}
	buf := g.buffers.Get().(*[]byte)
	defer g.buffers.Put(buf)
	data, done, err := g.read(dir, name, buf)
	if err != nil {
		g.skip(path, err)
		return
	}
	defer done()
	hits := fileHits{path: path, binary: bytes.IndexByte(data[:min(len(data), binaryProbe)], 0) >= 0}
	most := g.most + 1 // with one more than is shown it is known that there are more
	if hits.binary {
		most = 1
	}
	g.matcher.each(g.ctx, data, func(line, start, end, at int) bool {
		h := hit{line: line}
		if !hits.binary {
			h.text = showLine(data[start:end], at-start)
			h.before, h.after = around(data, start, end, g.context)
		}
		hits.hits = append(hits.hits, h)
		return len(hits.hits) < most
	})
	if len(hits.hits) > 0 {
		g.add(hits)
	}
}

// add adds what was found in a file and drops what cannot be shown any more.
func (g *grep) add(f fileHits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, _ := slices.BinarySearchFunc(g.found, f.path, func(f fileHits, path string) int { return strings.Compare(f.path, path) })
	g.found = slices.Insert(g.found, i, f)
	g.hits += len(f.hits)
	for g.hits > g.most {
		g.more = true
		last := g.found[len(g.found)-1]
		if g.hits-len(last.hits) < g.most {
			break // some of it is shown
		}
		g.hits -= len(last.hits)
		g.found = g.found[:len(g.found)-1]
	}
}

// skip records a file that was not searched.
func (g *grep) skip(path string, err error) {
	if errors.Is(err, fs.ErrNotExist) || g.ctx.Err() != nil {
		return // it is gone meanwhile; or everything is cancelled
	}
	const enough = 10_000
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.skipped) < enough {
		g.skipped = append(g.skipped, skipped{path, shortReason(err)})
	}
}

// read reads a regular file: a small one into *buf, which grows as needed, another one when there is
// room for it. The caller calls done when it needs the data no more.
func (g *grep) read(dir *os.Root, name string, buf *[]byte) (data []byte, done func(), err error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, files.Reason(err)
	}
	size := int(min(info.Size(), maxSearched+1))
	file, err := openRegular(dir, name, info)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	if size <= smallFile {
		*buf, err = readUpTo(file, slices.Grow((*buf)[:0], size+bytes.MinRead), smallFile)
		if err != nil || len(*buf) <= smallFile {
			return *buf, func() {}, err
		}
		data, size = *buf, maxSearched // it grows, or has no size, as files of /proc
	}
	if size <= maxSearched {
		if done, err = g.reserve(int64(size)); err != nil {
			return nil, nil, err
		}
		data, err = readUpTo(file, append(make([]byte, 0, size+bytes.MinRead), data...), size)
		if err == nil && len(data) <= maxSearched {
			return data[:min(len(data), size)], done, nil // without what it has grown by meanwhile
		}
		done()
	}
	return nil, nil, cmp.Or(err, fmt.Errorf("larger than %s", brief.Size(maxSearched)))
}

// readUpTo appends what file has to b, up to its end or to more than most bytes.
func readUpTo(file io.Reader, b []byte, most int) ([]byte, error) {
	for len(b) <= most {
		if len(b) == cap(b) {
			b = slices.Grow(b, bytes.MinRead)
		}
		n, err := file.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, files.Reason(err)
		}
	}
	return b, nil
}

// room is what the files take that all calls of the process search at the same time, without small
// ones.
var room = sync.OnceValue(func() *semaphore.Weighted { return semaphore.NewWeighted(maxSearching) })

// reserve waits for room. It is given back with release, or when the call ends: a file system that
// does not answer keeps none.
func (g *grep) reserve(n int64) (release func(), err error) {
	if err := room().Acquire(g.ctx, n); err != nil {
		return nil, err
	}
	give := func() { room().Release(n) }
	stop := context.AfterFunc(g.ctx, give)
	return func() {
		if stop() {
			give()
		}
	}, nil
}

// showLine is a line as results show it: the part around the match at byte at.
func showLine(line []byte, at int) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) <= maxShown {
		return brief.UTF8(string(line))
	}
	from := max(min(at-maxShown/4, len(line)-maxShown), 0)
	text := brief.UTF8(string(line[from:min(from+maxShown, len(line))]))
	if from > 0 {
		text = "..." + text
	}
	if from+maxShown < len(line) {
		text += "..."
	}
	return fmt.Sprintf("%s [cut: the line has %d bytes]", text, len(line))
}

// around is the n lines before and after the line data[start:end].
func around(data []byte, start, end, n int) (before, after []string) {
	for at := start; len(before) < n && at > 0; {
		from := bytes.LastIndexByte(data[:at-1], '\n') + 1
		before = append(before, showLine(data[from:at-1], 0))
		at = from
	}
	slices.Reverse(before)
	for at := end + 1; len(after) < n && at < len(data); {
		to := at + lineLen(data[at:])
		after = append(after, showLine(data[at:to], 0))
		at = to + 1
	}
	return before, after
}

// lineLen is the length of the first line of data without its line break.
func lineLen(data []byte) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i
	}
	return len(data)
}

// text writes the result: path:line:text, with - for lines around a match, and what was left out.
func (g *grep) text(limit int) string {
	const notes = SmallResult / 2 // bytes that stay free for notes
	var out strings.Builder
	left, last := g.most, ""
	reached := func(what string) {
		fmt.Fprintf(&out, "[stopped at %s: there are more; narrow pattern, path or glob]\n", what)
		g.skipped = slices.DeleteFunc(g.skipped, func(s skipped) bool { return s.path > last })
	}
	func() {
		for _, f := range g.found {
			if left <= 0 {
				break
			}
			shown := f.hits[:min(len(f.hits), left)]
			left -= len(shown)
			last = f.path
			for _, block := range f.blocks(VisiblePath(g.name(f.path)), shown, g.context) {
				if out.Len() == 0 {
					block = strings.TrimPrefix(block, "--\n")
				}
				if out.Len()+len(block) > limit-notes {
					reached(brief.Size(limit - notes))
					return
				}
				out.WriteString(block)
			}
		}
		if g.more {
			reached(fmt.Sprintf("max_matches = %d", g.most))
		}
	}()
	if len(g.found) == 0 {
		out.WriteString("[no match]\n")
	}
	g.writeSkipped(&out)
	return out.String()
}

// blocks are the parts of a file that are shown: one block for each hit.
func (f fileHits) blocks(name string, hits []hit, context int) []string {
	if f.binary {
		return []string{name + ": binary file matches\n"}
	}
	var out []string
	last := 0 // the last line that was written
	for i, h := range hits {
		var b strings.Builder
		line := func(n int, sep, text string) {
			if n > last {
				fmt.Fprintf(&b, "%s%s%d%s%s\n", name, sep, n, sep, text)
				last = n
			}
		}
		first := h.line - len(h.before)
		if context > 0 && (i == 0 || first > last+1) {
			b.WriteString("--\n")
		}
		for k, text := range h.before {
			line(first+k, "-", text)
		}
		line(h.line, ":", h.text)
		for k, text := range h.after {
			n := h.line + 1 + k
			if i+1 < len(hits) && n >= hits[i+1].line {
				break // written there
			}
			line(n, "-", text)
		}
		out = append(out, b.String())
	}
	return out
}

// writeSkipped names the files that were not searched.
func (g *grep) writeSkipped(out *strings.Builder) {
	if len(g.skipped) == 0 {
		return
	}
	slices.SortFunc(g.skipped, func(a, b skipped) int { return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.why, b.why)) })
	var names []string
	for _, s := range g.skipped[:min(len(g.skipped), maxSkipped)] {
		names = append(names, brief.Shorten(VisiblePath(g.name(s.path)), 60)+" ("+brief.Shorten(s.why, 40)+")")
	}
	if n := len(g.skipped) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	fmt.Fprintf(out, "[not searched: %s]\n", strings.Join(names, ", "))
}
