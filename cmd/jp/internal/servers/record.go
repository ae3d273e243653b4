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

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
)

// recordPath returns the path of the record of a server. It is beside the record of the workspace's
// trust, where no tool and no workspace can write. Approvals by JP_TRUST_WORKSPACE, which asks
// nobody, have a file of their own.
func (u *Set) recordPath(ctx context.Context, name string, unasked bool) (string, error) {
	prefix, err := u.recordPrefix(ctx)
	if err != nil {
		return "", err
	}
	return prefix + recordName(name, unasked), nil
}

// recordPrefix returns the beginning of the paths of all records of the workspace.
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

// Forget removes the records of all servers of the workspace. It keeps those of servers in the
// user's own config.
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
		keep[recordName(name, false)] = s.Err == nil // otherwise the entry only confines a server of the workspace
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

// forget removes the record of one server, so that a person is asked again.
func (u *Set) forget(ctx context.Context, name string) error {
	file, err := u.recordPath(ctx, name, false)
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record of an MCP server: %w", err)
	}
	return nil
}

// Record returns the record of the approval of a server with this name, nil if there is none.
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

// WriteRecord writes the record of a server: the tools that a person approved, or all tools of a
// server in the user's own config. A record that is unasked counts only while JP_TRUST_WORKSPACE is
// set. The error is a refusal if the trust of the workspace was taken back since it was checked:
// with it went all approvals.
func (u *Set) WriteRecord(ctx context.Context, s Server, list []mcp.Tool, left []string, unasked bool) (*mcp.Record, error) {
	if gate := u.ws.Gate; !s.Own && !gate.ByEnv() && gate.Passed() != nil {
		unlock, err := u.stillTrusted(ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	file, err := u.recordPath(ctx, s.Server.Name, unasked)
	if err != nil {
		return nil, err
	}
	r := &mcp.Record{Version: mcp.RecordVersion, Server: s.Server, Approved: time.Now().UTC().Truncate(time.Second), Tools: list, Left: left}
	data, err := json.Marshal(r) // not indented: schemas are compared byte by byte
	if err != nil {
		return nil, err
	}
	if err := trust.WriteOwn(file, data); err != nil {
		return nil, fmt.Errorf("MCP server %s: record: %w", s.Server.Name, err)
	}
	return r, nil
}

// stillTrusted returns a refusal if the workspace is not trusted any more. Until unlock is called
// nobody takes its trust back.
func (u *Set) stillTrusted(ctx context.Context) (unlock func(), err error) {
	root, err := u.ws.Root()
	if err != nil {
		return nil, err
	}
	file, _, err := u.ws.Gate.RecordPath(ctx, root)
	if err != nil {
		return nil, err
	}
	if unlock, err = trust.LockFile(ctx, file+".lock"); err != nil {
		return nil, fmt.Errorf("trust record: %w", err)
	}
	j, err := u.ws.Gate.Judge(ctx, root)
	if err == nil && !j.OK() {
		err = exit.Refusedf("workspace %s: not trusted any more as it was", root).WithHint("`jp trust` shows what it would allow and asks")
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// Approved returns the record of s, nil if there is none or if it belongs to another entry.
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

// ToolsSeen returns the tools that a server had when it was last asked; known is false if there is
// no record.
func (u *Set) ToolsSeen(ctx context.Context, name string) (list []string, known bool) {
	r, err := u.Record(ctx, name)
	if err == nil && r == nil && u.ws.Gate.ByEnv() {
		r, err = u.ReadRecord(ctx, name, true)
	}
	if err != nil || r == nil {
		return nil, false // without a state folder there are no records
	}
	for _, t := range r.Tools {
		list = append(list, t.Name)
	}
	return list, true
}
