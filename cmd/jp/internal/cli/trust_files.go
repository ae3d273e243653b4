package cli

import (
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
	"strings"
	"syscall"
	"unicode/utf8"

	"jp/cmd/jp/internal/exit"
	"jp/profiles/tomldoc"
	"jp/tools"
)

// Bounds of what a workspace may bring along. Beyond them it cannot be trusted: what is not hashed is not loaded.
const (
	maxContributed      = 4096     // files and folders
	maxContributedFile  = 16 << 20 // bytes of one file
	maxContributedTotal = 64 << 20 // bytes of all
	maxContributedDepth = 32       // folders in one another
	maxContributedKept  = 1 << 20  // bytes of a file whose content is kept; no loader takes more
)

// mcpFile is where a workspace names MCP servers, as for other agents.
const mcpFile = ".mcp.json"

// contribution is what a workspace brings along, as it was when it was looked at. Immutable after contributed returns.
type contribution struct {
	root   string            // the folder that holds .jp
	stamps map[string]string // by slash path below root; see fileStamp
	data   map[string][]byte // of the small regular files
	count  int
	bytes  int64
}

// fileStamp is the stamp of a regular file. A stamp says what a path holds, so that equal stamps mean equal content:
//
//	sha256:HEX               a regular file
//	link:TARGET sha256:HEX   a symbolic link to one that stays inside
//	link:TARGET              any other symbolic link; jp does not read through it
//	a FIFO, a socket, ...    never opened
func fileStamp(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// dataStamp is the stamp of a regular file with these bytes.
func dataStamp(data []byte) string { return fileStamp(sha256.Sum256(data)) }

// contributed reads everything that the workspace at root could have jp load: all of .jp, and below root itself the skills,
// instructions and MCP servers. Links are followed as loaders follow them, inside .jp or the workspace and not out of it.
// Nothing is opened but regular files and folders. A *failure tells what cannot be trusted; another error, what jp lacks to read it.
func contributed(root string) (*contribution, error) {
	c := &contribution{root: root, stamps: map[string]string{}, data: map[string][]byte{}}
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

// contributedTools reads only the tool definitions of the workspace at root.
func contributedTools(root string) (*contribution, error) {
	c := &contribution{root: root, stamps: map[string]string{}, data: map[string][]byte{}}
	return c, c.tree(filepath.Join(root, ".jp"), ".jp", "tools")
}

// tree adds what is at name, below the folder jail that nothing leads out of. prefix is the path of jail below the workspace.
func (c *contribution) tree(jail, prefix, name string) error {
	root, err := os.OpenRoot(jail)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return c.unfit(prefix, err)
	}
	defer func() { _ = root.Close() }()
	return c.add(root, prefix, name, nil)
}

// errNotText is a name, or the target of a link, that no record of trust can hold.
var errNotText = errors.New("is not UTF-8")

// add stamps one path; up are the folders that it is in.
func (c *contribution) add(root *os.Root, prefix, name string, up []fs.FileInfo) error {
	key := path.Join(prefix, name)
	if c.count++; c.count > maxContributed {
		return c.unfit(key, fmt.Errorf("more than %d files", maxContributed))
	}
	if !utf8.ValidString(name) {
		return c.unfit(key, errNotText) // no record could name it
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // not there, or gone since it was listed: then it is not loaded either
	}
	if err != nil {
		return c.unfit(key, err)
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := root.Readlink(name)
		if err == nil && !utf8.ValidString(to) {
			err = errNotText
		}
		if err != nil {
			return c.unfit(key, err)
		}
		link = "link:" + to
		if info, err = root.Stat(name); err != nil {
			c.stamps[key] = link // out of the jail, in a circle, or to nothing
			return nil
		}
	}
	switch {
	case info.IsDir():
		if link != "" {
			c.stamps[key] = link
		}
		return c.folder(root, prefix, name, info, up)
	case !info.Mode().IsRegular():
		c.stamps[key] = strings.TrimSpace(link + " " + fileKind(info.Mode()))
		return nil
	}
	sum, data, err := c.read(root, name)
	if err != nil {
		return c.unfit(key, err)
	}
	c.stamps[key] = strings.TrimSpace(link + " " + fileStamp(sum))
	if data != nil {
		c.data[key] = data
	}
	return nil
}

func (c *contribution) folder(root *os.Root, prefix, name string, info fs.FileInfo, up []fs.FileInfo) error {
	if slices.ContainsFunc(up, func(above fs.FileInfo) bool { return os.SameFile(above, info) }) {
		return nil // a link back up
	}
	key := path.Join(prefix, name)
	if len(up) >= maxContributedDepth {
		return c.unfit(key, fmt.Errorf("folders are nested deeper than %d", maxContributedDepth))
	}
	dir, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return c.unfit(key, err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(maxContributed + 1) // more than that is refused anyway
	if err != nil && err != io.EOF {
		return c.unfit(key, err)
	}
	slices.Sort(names) // so that the first mistake is always the same
	for _, n := range names {
		if err := c.add(root, prefix, path.Join(name, n), append(up[:len(up):len(up)], info)); err != nil {
			return err
		}
	}
	return nil
}

// read hashes a regular file. data is nil when it is larger than what is kept.
func (c *contribution) read(root *os.Root, name string) (sum [sha256.Size]byte, data []byte, err error) {
	// Not blocking: a pipe may have been put there since it was looked at.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return sum, nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return sum, nil, err
	case !info.Mode().IsRegular():
		return sum, nil, errors.New("changed while it was read")
	case info.Size() > maxContributedFile:
		return sum, nil, fmt.Errorf("larger than %d MiB", maxContributedFile>>20)
	}
	data, err = io.ReadAll(io.LimitReader(f, maxContributedFile+1))
	if err != nil {
		return sum, nil, err
	}
	if len(data) > maxContributedFile {
		return sum, nil, fmt.Errorf("larger than %d MiB", maxContributedFile>>20)
	}
	if c.bytes += int64(len(data)); c.bytes > maxContributedTotal {
		return sum, nil, fmt.Errorf("more than %d MiB in all", maxContributedTotal>>20)
	}
	sum = sha256.Sum256(data)
	if len(data) > maxContributedKept {
		data = nil
	}
	return sum, data, nil
}

// unfit is the error for what keeps a workspace from being trusted at all, unless it is this process that lacks something.
func (c *contribution) unfit(key string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			return fmt.Errorf("workspace %s: %s: %w", c.root, key, err)
		}
	}
	return exit.Refusedf("workspace %s: cannot be trusted: %s: %v", c.root, key, err).
		WithHint("every file that a workspace has jp load is hashed; move away what does not belong in .jp")
}

// holds reports whether the file that was loaded from key is one of c, byte for byte. sha is in hex.
func (c *contribution) holds(key, sha string) bool {
	stamp := c.stamps[key]
	return sha != "" && (stamp == "sha256:"+sha || strings.HasPrefix(stamp, "link:") && strings.HasSuffix(stamp, " sha256:"+sha))
}

// inJP returns the slash path below root of a file in .jp, whatever links lead there; "" for files elsewhere.
func inJP(root, file string) string {
	below := func(dir, file string) string {
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			return path.Join(".jp", filepath.ToSlash(rel))
		}
		return ""
	}
	jp := filepath.Join(root, ".jp")
	if key := below(jp, file); key != "" {
		return key
	}
	jp, err := filepath.EvalSymlinks(jp)
	if err != nil {
		return ""
	}
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return ""
	}
	return below(jp, file)
}

// tools decodes the definitions in .jp/tools from what was read, so that nothing else can take their place.
func (c *contribution) tools() (map[string]tools.Definition, error) {
	const folder = ".jp/tools"
	files := map[string][]byte{}
	for key := range c.stamps {
		name, ok := strings.CutPrefix(key, folder+"/")
		definition := strings.HasSuffix(name, ".toml")
		if !ok || definition && (strings.Contains(name, "/") || strings.HasPrefix(name, ".")) {
			continue // a definition stands in the folder itself; scripts may stand below
		}
		switch data, ok := c.data[key]; {
		case ok:
			files[name] = data
		case definition:
			return nil, fmt.Errorf("%s: is no file of at most %d MiB in .jp", filepath.Join(c.root, filepath.FromSlash(key)), maxContributedKept>>20)
		}
	}
	found, err := tools.DecodeFiles(filepath.Join(c.root, filepath.FromSlash(folder)), files)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if e := tools.CheckSource(found[name], func(string) string { return c.definitionAt(name) }); e != nil {
			err = errors.Join(err, e)
			delete(found, name)
		}
	}
	return found, err
}

// definitionAt is the place of the source of a definition in .jp/tools.
func (c *contribution) definitionAt(name string) string {
	key := c.definedIn()[name]
	return fmt.Sprintf("%s:%d", filepath.Join(c.root, filepath.FromSlash(key)), max(c.keyLines(key)["source"], 1))
}

// keyLines returns the line of each key in a TOML file that can be read, by dotted path.
func (c *contribution) keyLines(key string) map[string]int {
	_, marks, _ := tomldoc.Decode(c.data[key], new(map[string]any))
	return marks.Lines()
}

// definedIn names the file of each definition in .jp/tools that can be read, below the workspace.
func (c *contribution) definedIn() map[string]string {
	in := map[string]string{}
	for key := range c.data {
		if path.Dir(key) != ".jp/tools" || path.Ext(key) != ".toml" {
			continue
		}
		if d, ok := c.definition(key); ok {
			in[d.Name] = key
		}
	}
	return in
}

// definition decodes one file of .jp/tools, with the scripts beside it.
func (c *contribution) definition(key string) (tools.Definition, bool) {
	files := map[string][]byte{}
	for k, data := range c.data {
		if name, ok := strings.CutPrefix(k, ".jp/tools/"); ok && (k == key || path.Ext(name) != ".toml") {
			files[name] = data
		}
	}
	found, err := tools.DecodeFiles(filepath.Join(c.root, ".jp", "tools"), files)
	if err != nil {
		return tools.Definition{}, false
	}
	for _, d := range found {
		return d, true
	}
	return tools.Definition{}, false
}

// sub is the part of stamps below a folder.
func sub(stamps map[string]string, folder string) map[string]string {
	out := map[string]string{}
	for key, stamp := range stamps {
		if strings.HasPrefix(key, folder+"/") || key == folder {
			out[key] = stamp
		}
	}
	return out
}

// fileKind names what is no regular file.
func fileKind(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// inSkills is the key, for trust, of a skill's file beside .jp in the workspace at root; "" for any other file.
func inSkills(root, file string) string {
	rel, err := filepath.Rel(root, file)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// instructions names the project instructions that the workspace brings along, "" for none.
func (c *contribution) instructions() string {
	for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
		if _, ok := c.data[name]; ok {
			return name
		}
	}
	return ""
}
