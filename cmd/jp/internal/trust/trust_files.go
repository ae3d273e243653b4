package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"jp/cmd/jp/internal/exit"
	"jp/profiles/tomldoc"
	"jp/tools"
	"jp/tools/files"
)

// Bounds of what a workspace may bring along. Beyond them it cannot be trusted: a file without a
// hash is not loaded.
const (
	maxContributed      = 4096     // files and folders
	maxContributedFile  = 16 << 20 // bytes of one file
	maxContributedTotal = 64 << 20 // bytes of all
	maxContributedDepth = 32       // folders in one another
	maxLeft             = 32       // names of editors' files that are looked for in the others
	MaxContributedKept  = 1 << 20  // bytes of a file whose content stays in memory; no loader takes more
)

// MCPFile is where a workspace names MCP servers, as for other agents.
const MCPFile = ".mcp.json"

// Files is what a workspace brings along, as it was when it was read. It does not change
// afterwards.
type Files struct {
	Root   string            // the folder that holds .jp
	Stamps map[string]string // by slash path below root; see fileStamp
	Data   map[string][]byte // of the small regular files
	nodes  map[string]*node  // what was found, for FS
	count  int
	bytes  int64
	leave  bool     // leave out the files of editors, see editorFile
	left   []string // names of those that were left out, in lower case, each once

	decode      sync.Once
	definitions definitions // of defined
}

// fileStamp is the stamp of a regular file. A stamp says what a path holds, so that equal stamps
// mean equal content:
//
//	sha256:HEX                 a regular file
//	link:"TARGET" sha256:HEX   a symbolic link to one that stays inside
//	link:"TARGET"              any other symbolic link; jp does not read through it
//	a FIFO, a socket, ...      never opened
//
// TARGET is quoted as in Go, so that no target reads like another one and what it leads to.
func fileStamp(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// DataStamp returns the stamp of a regular file with these bytes.
func DataStamp(data []byte) string { return fileStamp(sha256.Sum256(data)) }

// look reads everything of the workspace at root that jp could load: all of .jp, and below root
// itself the skills, instructions and MCP servers. Links are followed as loaders follow them,
// within .jp or the workspace. Only regular files and folders are opened. An *exit.Error says what
// cannot be trusted; another error says that this process could not read it.
//
// Files of editors are left out: they do not exist for loaders, and nobody is asked about them. But
// a program that the workspace starts could read one. So if a file that counts has the name of one
// in it, all of them count.
func look(root string) (*Files, error) {
	c, err := lookAt(root, true)
	if err == nil && c.namesLeft() {
		return lookAt(root, false)
	}
	return c, err
}

func lookAt(root string, leave bool) (*Files, error) {
	c := &Files{Root: root, Stamps: map[string]string{}, Data: map[string][]byte{}, leave: leave}
	if err := c.tree(filepath.Join(root, ".jp"), ".jp", "."); err != nil {
		return nil, err
	}
	for _, name := range []string{".agents/skills", ".claude/skills", "AGENTS.md", "CLAUDE.md", ".mcp.json"} {
		if err := c.tree(root, "", name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// lookTools reads only the tool definitions of the workspace at root. leave leaves the files of
// editors out.
func lookTools(root string, leave bool) (*Files, error) {
	c := &Files{Root: root, Stamps: map[string]string{}, Data: map[string][]byte{}, leave: leave}
	return c, c.tree(filepath.Join(root, ".jp"), ".jp", "tools")
}

// editorFile reports whether the file at a slash path has the name of a swap, backup or lock file
// of an editor, or of a file that macOS leaves in folders.
func editorFile(key string) bool {
	name := path.Base(key)
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return false // a file system may know it by another spelling
	}
	return slices.ContainsFunc([]string{".*.sw?", "*~", "#*#", ".#*", ".DS_Store"}, func(pattern string) bool {
		is, _ := path.Match(pattern, name)
		return is
	})
}

// errEditorFile is the error for a file that was left out.
var errEditorFile = errors.New("has the name of an editor's swap or backup file, which jp never loads")

// namesLeft reports whether a file has the name of a file that was left out in it. One that is too
// large to be kept may have it, and any if there are too many names to look for. A .gitignore lists
// such names, and runs nothing.
func (c *Files) namesLeft() bool {
	if n := len(c.left); n == 0 || n > maxLeft {
		return n > 0
	}
	for key, n := range c.nodes {
		if n.info == nil || !n.info.Mode().IsRegular() || path.Base(key) == ".gitignore" {
			continue
		}
		text := bytes.ToLower(n.data) // the file system may not tell capitals apart
		if n.data == nil && n.info.Size() > 0 || slices.ContainsFunc(c.left, func(name string) bool { return bytes.Contains(text, []byte(name)) }) {
			return true
		}
	}
	return false
}

// tree adds the file or folder name below the folder jail, which nothing leads out of. prefix is
// the path of jail below the workspace.
func (c *Files) tree(jail, prefix, name string) error {
	root, err := os.OpenRoot(jail)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return c.Unfit(prefix, err)
	}
	defer func() { _ = root.Close() }()
	return c.add(root, prefix, name, nil)
}

// ErrNotText is the error for a name, or the target of a link, that no record of trust can hold.
var ErrNotText = errors.New("is not UTF-8")

// add stamps one path; up are the folders that it is in.
func (c *Files) add(root *os.Root, prefix, name string, up []fs.FileInfo) error {
	key := path.Join(prefix, name)
	if c.count++; c.count > maxContributed {
		return c.Unfit(key, fmt.Errorf("more than %d files", maxContributed))
	}
	if !utf8.ValidString(name) {
		return c.Unfit(key, ErrNotText) // no record could name it
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // not there, or gone since it was listed: then it is not loaded either
	}
	if err != nil {
		return c.Unfit(key, err)
	}
	at := &node{named: info, info: info}
	c.note(key, at)
	if c.leave && !info.IsDir() && editorFile(key) {
		at.info, at.lost = nil, errEditorFile
		if name := strings.ToLower(path.Base(key)); !slices.Contains(c.left, name) {
			c.left = append(c.left, name)
		}
		return nil
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(name)
		if err == nil && !utf8.ValidString(to) {
			err = ErrNotText
		}
		if err != nil {
			return c.Unfit(key, err)
		}
		link = "link:" + strconv.Quote(to)
		if info, err = root.Stat(name); err != nil {
			c.Stamps[key] = link // it leads out of the jail, in a circle, or to nothing
			at.info, at.lost = nil, files.Reason(err)
			return nil
		}
		at.info = info
	}
	switch {
	case info.IsDir():
		if link != "" {
			c.Stamps[key] = link
		}
		return c.folder(root, prefix, name, info, up)
	case !info.Mode().IsRegular():
		c.Stamps[key] = strings.TrimSpace(link + " " + files.Kind(info.Mode()))
		return nil
	}
	sum, data, info, err := c.read(root, name)
	if err != nil {
		return c.Unfit(key, err)
	}
	at.info, at.data = info, data
	c.Stamps[key] = strings.TrimSpace(link + " " + fileStamp(sum))
	if data != nil {
		c.Data[key] = data
	}
	return nil
}

func (c *Files) folder(root *os.Root, prefix, name string, info fs.FileInfo, up []fs.FileInfo) error {
	key := path.Join(prefix, name)
	if i := slices.IndexFunc(up, func(above fs.FileInfo) bool { return os.SameFile(above, info) }); i >= 0 {
		c.nodes[key].back = len(up) - i // a link back up
		return nil
	}
	if len(up) >= maxContributedDepth {
		return c.Unfit(key, fmt.Errorf("folders are nested deeper than %d", maxContributedDepth))
	}
	dir, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return c.Unfit(key, err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(maxContributed + 1) // more than that is refused anyway
	if err != nil && err != io.EOF {
		return c.Unfit(key, err)
	}
	slices.Sort(names) // so that the first mistake is always the same
	c.nodes[key].names = names
	for _, n := range names {
		if err := c.add(root, prefix, path.Join(name, n), append(up[:len(up):len(up)], info)); err != nil {
			return err
		}
	}
	return nil
}

// read hashes a regular file. data is nil when the file is larger than MaxContributedKept.
func (c *Files) read(root *os.Root, name string) (sum [sha256.Size]byte, data []byte, info fs.FileInfo, err error) {
	data, info, err = files.ReadRegular(root, name, maxContributedFile, 0)
	switch {
	case errors.Is(err, files.ErrFolder), errors.Is(err, files.ErrSpecial):
		return sum, nil, nil, errors.New("changed while it was read")
	case err != nil:
		return sum, nil, nil, err
	}
	if c.bytes += int64(len(data)); c.bytes > maxContributedTotal {
		return sum, nil, nil, fmt.Errorf("more than %d MiB in all", maxContributedTotal>>20)
	}
	sum = sha256.Sum256(data)
	if len(data) > MaxContributedKept {
		data = nil
	}
	return sum, data, info, nil
}

// Unfit returns the error for a file because of which a workspace cannot be trusted at all, or, if
// only this process cannot read the file, the error of that.
func (c *Files) Unfit(key string, err error) error {
	err = files.Reason(err)
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			return fmt.Errorf("workspace %s: %s: %w", c.Root, key, err)
		}
	}
	return exit.Refusedf("workspace %s: cannot be trusted: %s: %v", c.Root, key, err).
		WithHint("every file that a workspace has jp load is hashed; move away what does not belong in .jp")
}

// definitions are what .jp/tools defines.
type definitions struct {
	tools map[string]tools.Definition
	in    map[string]string // their files, below the workspace
	err   error             // joins one for each file that cannot be used
}

// Tools returns the definitions in .jp/tools, from the bytes that were read, so that no others can
// take their place. With an error it returns those that can be used. Nobody changes the map.
func (c *Files) Tools() (map[string]tools.Definition, error) {
	d := c.defined()
	return d.tools, d.err
}

// DefinedIn names the file of each definition of Tools, below the workspace. Nobody changes the map.
func (c *Files) DefinedIn() map[string]string { return c.defined().in }

// defined decodes the definitions in .jp/tools, once: a page of trust asks for them again for each
// agent.
func (c *Files) defined() definitions {
	c.decode.Do(func() {
		const folder = ".jp/tools"
		files := map[string][]byte{}
		var all []error
		for _, key := range slices.Sorted(maps.Keys(c.Stamps)) {
			name, ok := strings.CutPrefix(key, folder+"/")
			definition := strings.HasSuffix(name, ".toml")
			if !ok || definition && (strings.Contains(name, "/") || strings.HasPrefix(name, ".")) {
				continue // a definition is in the folder itself; scripts may be below
			}
			switch data, ok := c.Data[key]; {
			case ok:
				files[name] = data
			case definition:
				all = append(all, fmt.Errorf("%s: is no file of at most %d MiB in .jp", filepath.Join(c.Root, filepath.FromSlash(key)), MaxContributedKept>>20))
			}
		}
		d := &c.definitions
		d.tools, d.in, d.err = tools.DecodeFiles(filepath.Join(c.Root, filepath.FromSlash(folder)), files)
		for name, file := range d.in {
			d.in[name] = path.Join(folder, file)
		}
		if len(all) > 0 {
			d.err = errors.Join(append(all, d.err)...)
		}
	})
	return c.definitions
}

// KeyLines returns the line of each key in a TOML file that can be read, by dotted path.
func (c *Files) KeyLines(key string) map[string]int {
	_, marks, _ := tomldoc.Decode(c.Data[key], new(map[string]any))
	return marks.Lines()
}

// sub returns the stamps below a folder.
func sub(stamps map[string]string, folder string) map[string]string {
	out := map[string]string{}
	for key, stamp := range stamps {
		if strings.HasPrefix(key, folder+"/") || key == folder {
			out[key] = stamp
		}
	}
	return out
}

// Instructions names the project instructions that the workspace brings along, "" for none.
func (c *Files) Instructions() string {
	for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
		if _, ok := c.Data[name]; ok {
			return name
		}
	}
	return ""
}
