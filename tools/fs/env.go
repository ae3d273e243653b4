// Package fs is jp's own file tools (fs_read_file and the like): what they may reach, and what they
// do.
//
// [Open] reads the [Rule]s of a tool. Every path is walked component by component through os.Root
// handles and within the rules, so that a folder that is swapped for a link meanwhile leads nowhere
// else. The rules also say what a sandbox opens to a program ([Files.Confine]). [WalkFiles] walks
// as the tools do, without what .gitignore files exclude, for code that attaches files.
package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"jp/tools/files"
	"jp/tools/unseen"
)

// Env is what the file tools work on.
type Env struct {
	Workspace string // the folder that holds .jp, absolute
	Kept
}

// Kept are the files and folders that are kept from tools, whatever the rules say.
type Kept struct {
	Deny    []string  `json:"deny,omitempty"`    // folders that no rule opens, such as the store's
	Sealed  []string  `json:"sealed,omitempty"`  // files and folders, and links to such, that no rule opens for writing
	Growing []Growing `json:"growing,omitempty"` // files that no rule lets a tool make
	// Elsewhere is like Deny, but tools may have made links around it: it is of a machine that may be
	// another one, or among temporary files.
	Elsewhere []string `json:"-"`
}

// Sent returns k for a machine that may be another one or this one, and may not have the links of
// this one. If it works in a copy of the workspace, only rules for the copy leave out what is
// guarded at its top.
func (k Kept) Sent(workspace string, copied bool) Kept {
	k.Deny, k.Sealed, k.Growing = slices.Concat(k.Deny, k.Elsewhere), slices.Clone(k.Sealed), slices.Clone(k.Growing)
	if copied {
		k.Sealed = append(k.Sealed, guardedIn(withoutLinks(workspace))...)
	}
	for _, dir := range k.Deny {
		k.Deny = append(k.Deny, withoutLinks(dir))
	}
	for _, g := range k.Growing {
		k.Growing = append(k.Growing, Growing{withoutLinks(g.Dir), g.Match})
	}
	return k
}

// With adds what is kept from tools of a machine that may be this one, or have folders of this one.
// Only around what is kept from the tools of both did none make a link.
func (k Kept) With(sent Kept) Kept {
	own := k.Deny
	k.Deny = nil
	for _, dir := range own {
		if slices.Contains(sent.Deny, dir) {
			k.Deny = append(k.Deny, dir)
		} else {
			k.Elsewhere = append(k.Elsewhere, dir)
		}
	}
	k.Elsewhere = append(k.Elsewhere, sent.Deny...)
	k.Sealed, k.Growing = append(k.Sealed, sent.Sealed...), append(k.Growing, sent.Growing...)
	return k
}

// Growing describes files that may not exist yet and are protected as soon as they do.
type Growing struct {
	Dir   string `json:"dir"`   // absolute
	Match string `json:"match"` // pattern of path.Match, below Dir
}

// matches reports whether the absolute path is such a file. With above, a folder that may hold one
// counts too. What matches only without case counts, as some file systems do not look at it.
func (g Growing) matches(at string, above bool) bool {
	if !files.Within(g.Dir, at) {
		return false
	}
	names, want := components(g.Dir, at), strings.Split(g.Match, "/")
	if len(names) > len(want) || len(names) < len(want) && !above {
		return false
	}
	for i, name := range names {
		ok, err := filepath.Match(want[i], name)
		if !ok && err == nil {
			ok, err = filepath.Match(strings.ToLower(want[i]), strings.ToLower(name))
		}
		if !ok && err == nil {
			return false
		}
	}
	return true
}

// Func runs one call of a file tool. limit is the most bytes of its text.
type Func func(ctx context.Context, f *Files, limit int, args json.RawMessage) (string, error)

// Tool returns what runs a file tool, nil if there is none of this name, and what the tool may do
// with the workspace when its definition has no access.fs.
func Tool(name string) (run Func, mode Mode) {
	switch name {
	case "fs_read_file":
		return readFile, ReadOnly
	case "fs_list_files":
		return listFiles, ReadOnly
	case "fs_grep_files":
		return grepFiles, ReadOnly
	case "fs_create_file":
		return createFile, ReadWrite
	case "fs_modify_file":
		return modifyFile, ReadWrite
	}
	return nil, ""
}

// Check returns the *AccessError of a call of a built-in tool that may not use its path, and nil
// for whatever else may be wrong with it. It changes nothing.
func (f *Files) Check(mode Mode, raw json.RawMessage) error {
	var args struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(raw, &args) != nil || args.Path == "" || mode == ReadWrite && strings.HasSuffix(args.Path, "/") {
		return nil
	}
	p, err := f.find(args.Path, mode == ReadWrite)
	if err == nil {
		p.Close()
	}
	if _, ok := errors.AsType[*AccessError](err); ok {
		return err
	}
	return nil
}

// arguments decodes the arguments of a built-in tool into a struct.
func arguments[T any](raw json.RawMessage) (T, error) {
	var args T
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(&args)
	if err != nil {
		err = fmt.Errorf("arguments: %w", err)
	}
	return args, err
}

// Mode is what a file rule allows.
type Mode string

// The access modes.
const (
	ReadOnly  Mode = "ro"
	ReadWrite Mode = "rw"
)

// Rule opens one file or folder, and all below it, to a tool. Path is relative to the workspace or
// absolute. The rule with the longest path that covers a file decides.
type Rule struct {
	Path string
	Mode Mode
}

// String returns the rule for people, "ro PATH" or "rw PATH". The path is quoted where it could
// look like something else in a line or a list.
func (r Rule) String() string { return string(r.Mode) + " " + unseen.Word(r.Path) }

// SmallResult is the least limit of a result in bytes. An error message always fits into it, and so
// do the notes at the end of a listing.
const SmallResult = 1024
