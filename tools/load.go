package tools

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"jp/profiles/tomldoc"
	"jp/tools/brief"
	"jp/tools/fs"
)

// maxDefinition bounds a definition file in bytes.
const maxDefinition = 1 << 20

// LoadFile reads a definition from a file of its own. Errors name file and
// line; those about what is said in it are *DefinitionError.
func LoadFile(path string) (Definition, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return Definition{}, fmt.Errorf("%s: %w", path, fs.Reason(err))
	}
	defer root.Close()
	return loadFrom(root, filepath.Base(path), path)
}

// LoadDir reads all *.toml files of a folder, by the names of the tools. A
// folder that does not exist is empty; links that lead out of it are refused. When some files are broken, the
// others are returned beside an error that joins one for each.
func LoadDir(dir string) (map[string]Definition, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, fs.Reason(err))
	}
	defer root.Close()
	entries, err := iofs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, fs.Reason(err))
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return decodeAll(dir, names, func(name string) ([]byte, error) { return readDefinition(root, name) })
}

// DecodeFiles is [LoadDir] for files whose bytes are here already, by their
// names; dir is what messages call their folder.
func DecodeFiles(dir string, files map[string][]byte) (map[string]Definition, error) {
	names := slices.Sorted(maps.Keys(files))
	return decodeAll(dir, names, func(name string) ([]byte, error) {
		src, ok := files[name]
		switch {
		case !ok:
			return nil, iofs.ErrNotExist
		case len(src) > maxDefinition:
			return nil, fmt.Errorf("is larger than %s", brief.Size(maxDefinition))
		}
		return src, nil
	})
}

// decodeAll decodes the definitions among the files of a folder.
func decodeAll(dir string, names []string, read func(name string) ([]byte, error)) (map[string]Definition, error) {
	out, files := map[string]Definition{}, map[string]string{}
	var all []error
	for _, name := range names {
		if !strings.HasSuffix(name, ".toml") || strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(dir, name)
		src, err := read(name)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", path, fs.Reason(err)))
			continue
		}
		def, err := decodeFile(src, path, read)
		switch {
		case err != nil:
			all = append(all, err)
		case files[def.Name] != "":
			all = append(all, &DefinitionError{Pos: path, Tool: def.Name, Msg: "is defined already, in " + files[def.Name]})
		default:
			out[def.Name], files[def.Name] = def, path
		}
	}
	return out, errors.Join(all...)
}

// loadFrom reads the definition in the file name of root; path is what
// messages call it.
func loadFrom(root *os.Root, name, path string) (Definition, error) {
	src, err := readDefinition(root, name)
	if err != nil {
		return Definition{}, fmt.Errorf("%s: %w", path, fs.Reason(err))
	}
	return decodeFile(src, path, func(name string) ([]byte, error) { return readDefinition(root, name) })
}

// readDefinition reads a regular file of bounded size.
func readDefinition(root *os.Root, name string) ([]byte, error) {
	// O_NONBLOCK: opening a FIFO must not wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("is %s, not a file", fs.Kind(info.Mode()))
	}
	src, err := io.ReadAll(io.LimitReader(f, maxDefinition+1))
	if err == nil && len(src) > maxDefinition {
		err = fmt.Errorf("is larger than %s", brief.Size(maxDefinition))
	}
	return src, err
}

// decodeFile decodes the text of a definition file. read returns the bytes of
// another file in its folder.
func decodeFile(src []byte, path string, read func(name string) ([]byte, error)) (Definition, error) {
	var table map[string]any
	_, marks, err := tomldoc.Decode(src, &table)
	var bad *tomldoc.Error
	if errors.As(err, &bad) {
		at := path
		if bad.Line > 0 {
			at = fmt.Sprintf("%s:%d", path, bad.Line)
		}
		return Definition{}, fmt.Errorf("%s: %s", at, bad.Msg)
	}
	lines := marks.Lines()
	pos := func(key string) string {
		if n := lines[key]; n > 0 {
			return fmt.Sprintf("%s:%d", path, n)
		}
		if key == "" {
			return path
		}
		return ""
	}
	name, ok := table[keyName].(string)
	if !ok {
		base := strings.TrimSuffix(filepath.Base(path), ".toml")
		return Definition{}, newDecoder(base, table, pos).errorf(keyName, "want the name of the tool, not %s", typeName(table[keyName]))
	}
	if _, ok := table[keyEnable]; ok {
		return Definition{}, newDecoder(name, table, pos).errorf(keyEnable, "belongs into a config file: a file of its own only defines a tool")
	}
	return decode(name, table, pos, read)
}
