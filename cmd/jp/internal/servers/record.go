package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
)

// recordPath is where the record of a server is: beside that of the workspace's trust, where no tool and no workspace reaches. What
// JP_TRUST_WORKSPACE approved, which nobody was asked about, has a file of its own.
func (u *Set) recordPath(ctx context.Context, name string, unasked bool) (string, error) {
	root, err := u.ws.Root()
	if err != nil {
		return "", err
	}
	trust, canonical, err := u.ws.Gate.RecordPath(ctx, root)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(canonical + "\x00" + name))
	return filepath.Join(filepath.Dir(trust), "mcp-"+hex.EncodeToString(sum[:8])+wording.Either(unasked, "-unasked", "")+".json"), nil
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
