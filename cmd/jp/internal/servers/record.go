package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
)

// recordPath is where the record of a server is: beside that of the workspace's trust, where no tool and no workspace reaches. What
// JP_TRUST_WORKSPACE approved, which nobody was asked about, has a file of its own.
func (u *Set) recordPath(ctx context.Context, name string, unasked bool) (string, error) {
	prefix, err := u.recordPrefix(ctx)
	if err != nil {
		return "", err
	}
	return prefix + recordName(name, unasked), nil
}

// recordPrefix is how the paths of all records of the workspace begin.
func (u *Set) recordPrefix(ctx context.Context) (string, error) {
	root, err := u.ws.Root()
	if err != nil {
		return "", err
	}
	trust, canonical, err := u.ws.Gate.RecordPath(ctx, root)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(trust), "mcp-"+shortHash(canonical)+"-"), nil
}

func recordName(server string, unasked bool) string {
	return shortHash(server) + wording.Either(unasked, "-unasked", "") + ".json"
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// Forget removes the records of all servers of the workspace but those in the user's own config.
func (u *Set) Forget(ctx context.Context) error {
	root, err := u.ws.Root()
	if err != nil {
		return err
	}
	own, _, _, err := u.Parse(root, nil)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for name, s := range own {
		keep[recordName(name, false)] = s.Err == nil // else it only confines a server of the workspace
	}
	prefix, err := u.recordPrefix(ctx)
	if err != nil {
		return err
	}
	dir, start := filepath.Split(prefix)
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("records of MCP servers: %w", err)
	}
	for _, f := range files {
		rest, is := strings.CutPrefix(f.Name(), start)
		if !is || keep[rest] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("record of an MCP server: %w", err)
		}
	}
	return nil
}

// Record returns what was approved of a server under its name, nil when nothing was.
func (u *Set) Record(ctx context.Context, name string) (*mcp.Record, error) {
	return u.ReadRecord(ctx, name, false)
}

func (u *Set) ReadRecord(ctx context.Context, name string, unasked bool) (*mcp.Record, error) {
	file, err := u.recordPath(ctx, name, unasked)
	if err != nil {
		return nil, err
	}
	data, complaint := trust.ReadOwn(file)
	r := &mcp.Record{}
	switch {
	case complaint == "" && data == nil:
		return nil, nil
	case complaint == "" && json.Unmarshal(data, r) != nil:
		complaint = "it is damaged"
	case complaint == "" && (r.Version != mcp.RecordVersion || r.Server.Name != name):
		complaint = "it is that of another server, or of another version of jp"
	}
	if complaint != "" {
		u.con.Warn("MCP server %s: record %s: not used: %s", name, file, complaint)
		return nil, nil
	}
	return r, nil
}

// WriteRecord records what a person approved, or, of a server in their own config, what it has. What is unasked counts only as
// long as JP_TRUST_WORKSPACE says so.
func (u *Set) WriteRecord(ctx context.Context, s mcp.Server, list []mcp.Tool, left []string, unasked bool) (*mcp.Record, error) {
	file, err := u.recordPath(ctx, s.Name, unasked)
	if err != nil {
		return nil, err
	}
	r := &mcp.Record{Version: mcp.RecordVersion, Server: s, Approved: time.Now().UTC().Truncate(time.Second), Tools: list, Left: left}
	data, err := json.Marshal(r) // not indented: schemas are compared byte by byte
	if err != nil {
		return nil, err
	}
	if err := trust.WriteOwn(file, data); err != nil {
		return nil, fmt.Errorf("MCP server %s: record: %w", s.Name, err)
	}
	return r, nil
}

// Approved returns the record of s as it is now, nil when there is none or it is that of another entry.
func (u *Set) Approved(ctx context.Context, s Server) (*mcp.Record, error) {
	for _, unasked := range []bool{false, true} {
		if unasked && !u.ws.Gate.ByEnv() {
			break
		}
		r, err := u.ReadRecord(ctx, s.Server.Name, unasked)
		if err != nil || r != nil && r.Server.Digest() == s.Server.Digest() {
			return r, err
		}
	}
	return nil, nil
}

// ToolsSeen lists the tools that a server had when it was asked last; known is false where nothing says so.
func (u *Set) ToolsSeen(ctx context.Context, name string) (list []string, known bool) {
	r, err := u.Record(ctx, name)
	if err == nil && r == nil && u.ws.Gate.ByEnv() {
		r, err = u.ReadRecord(ctx, name, true)
	}
	if err != nil || r == nil {
		return nil, false // without a state folder there are none
	}
	for _, t := range r.Tools {
		list = append(list, t.Name)
	}
	return list, true
}
