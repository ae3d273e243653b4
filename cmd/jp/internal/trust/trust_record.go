package trust

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"jp/tools/files"
)

// Record is what a person has trusted: one file for each workspace, in the folder of its store,
// where no tool and no workspace reaches.
type Record struct {
	Version   int    `json:"version"`
	Workspace string `json:"workspace"` // canonical path, see pathText
	State

	// Earlier are states that were trusted before, the latest first. Each counts as a whole,
	// so that no mixture of two of them does.
	Earlier []State `json:"earlier,omitempty"`

	// Writing are the stamps of files that a jp is about to write for a person. If that jp was
	// killed they may be written or not: such a file is trusted in both forms.
	Writing map[string]string `json:"writing,omitempty"`
}

// State is a state of a workspace that a person has trusted.
type State struct {
	TrustedAt time.Time         `json:"trusted_at"`
	Files     map[string]string `json:"files"` // stamps by slash path below the workspace

	// Shown is what the page has shown; nil in the record of an earlier version, which does not
	// count as trust.
	Shown *Shown `json:"shown,omitempty"`
}

// maxEarlier bounds Record.Earlier.
const maxEarlier = 15

// at returns the record with the state first from which a workspace with the stamps present differs
// in the fewest files: the one that it has, if it has one. Of several it is the latest.
func (r Record) at(present map[string]string) *Record {
	best, least := -1, len(Changes(r.trusted(present), present))
	for i, e := range r.Earlier {
		if least == 0 {
			break
		}
		if n := len(Changes(e.Files, present)); n < least {
			best, least = i, n
		}
	}
	return r.first(best)
}

// of returns the record with the state first that the digest names, nil if it lacks that one.
// Without a digest it is the latest.
func (r Record) of(named string) *Record {
	if named == "" || digest(r.Files) == named {
		return &r
	}
	i := slices.IndexFunc(r.Earlier, func(e State) bool { return digest(e.Files) == named })
	if i < 0 {
		return nil
	}
	return r.first(i)
}

// first returns the record with the earlier state i first; -1 is the one that is first now.
func (r Record) first(i int) *Record {
	if i >= 0 {
		state := r.Earlier[i]
		r.Earlier = slices.Concat([]State{r.State}, r.Earlier[:i], r.Earlier[i+1:])
		r.State, r.Writing = state, nil
	}
	return &r
}

// then returns the record with the state s first, and those of r after it.
func (r Record) then(s State) Record {
	r.Earlier = slices.DeleteFunc(slices.Concat([]State{r.State}, r.Earlier), func(e State) bool {
		return e.Shown == nil || len(e.Files) == 0 || maps.Equal(e.Files, s.Files)
	})
	r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
	r.State, r.Writing = s, nil
	return r
}

// remembers reports whether the state s is still trusted, with all that was shown of it. A nil
// Record remembers none.
func (r *Record) remembers(s State) bool {
	return r != nil && slices.ContainsFunc(append([]State{r.State}, r.Earlier...), func(e State) bool {
		return maps.Equal(e.Files, s.Files) && e.Shown != nil && e.Shown.Has(*s.Shown)
	})
}

// digest names a state of the files of a workspace.
func digest(stamps map[string]string) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(stamps)) {
		fmt.Fprintf(sum, "%q %q\n", key, stamps[key])
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// trusted returns the stamps that are trusted while present are those of the workspace.
func (r Record) trusted(present map[string]string) map[string]string {
	list := maps.Clone(r.Files)
	for key, stamp := range r.Writing {
		if present[key] == stamp {
			list[key] = stamp
		}
	}
	return list
}

const (
	trustVersion = 1
	maxRecord    = 8 << 20 // bytes
)

// RecordPath returns the path of the record of a workspace, and the workspace's canonical path.
func (g *Gate) RecordPath(ctx context.Context, root string) (file, canonical string, err error) {
	dir, err := g.Records(ctx, root)
	if err != nil {
		return "", "", err
	}
	if canonical, err = filepath.EvalSymlinks(root); err != nil {
		return "", "", fmt.Errorf("workspace %s: %w", root, err)
	}
	sum := sha256.Sum256([]byte(canonical))
	return filepath.Join(dir, "trust-"+hex.EncodeToString(sum[:8])+".json"), canonical, nil
}

// readRecord returns the record of a workspace, nil when there is none. A record that someone else
// could have written, or that makes no sense, counts as none, and complaint says why.
func readRecord(file, canonical string) (r *Record, complaint string) {
	bad := func(why string) (*Record, string) {
		return nil, fmt.Sprintf("trust record %s: not used: %s", file, why)
	}
	data, why := ReadOwn(file)
	if why != "" {
		return bad(why)
	}
	if data == nil {
		return nil, ""
	}
	r = &Record{}
	switch err := json.Unmarshal(data, r); {
	case err != nil:
		return bad("it is damaged")
	case r.Version != trustVersion:
		return bad(fmt.Sprintf("it has version %d, this jp knows %d", r.Version, trustVersion))
	case r.Workspace != pathText(canonical):
		return bad("it is that of another workspace")
	}
	return r, ""
}

// pathText is a path as JSON can hold it. If it is not UTF-8 it is quoted, and no absolute path
// begins with a quote.
func pathText(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return strconv.Quote(path)
}

// ReadOwn returns the bytes of a record, nil when there is none. If someone else could have written
// it, complaint says why.
func ReadOwn(file string) (data []byte, complaint string) {
	data, info, err := files.ReadRegular(files.Disk{}, file, maxRecord, files.NoLink|files.Own)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ""
	case errors.As(err, new(*files.LargeError)):
		return nil, "it is damaged"
	case err != nil:
		return nil, "it " + files.Reason(err).Error()
	case info.Mode().Perm()&0o022 != 0:
		return nil, "others may write to it"
	}
	return append([]byte{}, data...), "" // an empty file was never written as a record
}

// writeRecord replaces the record of a workspace, whole or not at all.
func writeRecord(file string, r Record) error {
	r.Version, r.Workspace = trustVersion, pathText(r.Workspace)
	for {
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if len(data) < maxRecord || len(r.Earlier) == 0 {
			return WriteOwn(file, data)
		}
		r.Earlier = r.Earlier[:len(r.Earlier)/2]
	}
}

// WriteOwn replaces a record, or makes it, whole or not at all.
func WriteOwn(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	files.RemoveUnfinished(file, time.Now().Add(-time.Minute))
	return files.Replace(file, append(data, '\n'), 0o600)
}

// Change is a difference between what was trusted and the workspace.
type Change struct {
	Path  string `json:"path"`
	State string `json:"state"` // new, changed, gone; same where all files are listed
	Stamp string `json:"stamp"` // of what is there; of what was, when it is gone
}

// Changes compares stamps, sorted by path; equal ones are left out.
func Changes(trusted, present map[string]string) []Change {
	var list []Change
	for key, stamp := range present {
		switch was, ok := trusted[key]; {
		case !ok:
			list = append(list, Change{key, "new", stamp})
		case was != stamp:
			list = append(list, Change{key, "changed", stamp})
		}
	}
	for key, stamp := range trusted {
		if _, ok := present[key]; !ok {
			list = append(list, Change{key, "gone", stamp})
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return list
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// change replaces the record in file by what change returns for the present one (nil = none, or
// none that counts), and keeps the contents of its files, as one step: no other jp changes it
// meanwhile. The lock is a file of its own, which is never removed, since the record itself is
// replaced.
func (g *Gate) change(ctx context.Context, file, canonical string, change func(now *Record) (Record, contents, error)) error {
	unlock, err := LockFile(ctx, file+".lock")
	if err != nil {
		return fmt.Errorf("trust record: %w", err)
	}
	defer unlock()
	now, _ := readRecord(file, canonical)
	beside := readKept(file)
	if now != nil {
		now.pages(beside)
	}
	r, present, err := change(now)
	if err != nil {
		return err
	}
	r.Workspace, r.TrustedAt = canonical, time.Now().UTC().Truncate(time.Second)
	if err = r.keep(file, beside, present); err == nil {
		err = writeRecord(file, r)
	}
	if err != nil {
		return fmt.Errorf("trust record: %w", err)
	}
	return nil
}
