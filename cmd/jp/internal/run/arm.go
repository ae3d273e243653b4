package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/skills"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/tools"
	"jp/tools/fs"
)

// arm returns the tools of defs: each definition with the function that runs it. That of a tool
// that delegates is one of funcs.
func (ag *Agent) arm(ctx context.Context, defs []tools.Definition, funcs delegate.Funcs) (tools.Set, error) {
	env := ag.run.env.WS.CommandEnv(ag.run.Host, map[string]any{"conversation_id": ag.run.Conv.ID.String()})
	env.Main = ag.talksAsMain()
	env.JP = ag.line
	armed := make([]tools.Tool, 0, len(defs))
	var builtin []tools.Definition
	for _, def := range defs {
		def = withinGrant(withoutAsking(def, ag.run.Resolved), ag.run.Conv.Grant)
		if def.Local() {
			own := env
			if users, program, off := enabled.OffByUser(ag.run.env.WS, ag.run.env.Con.Env.Environ, def); off && !env.Main {
				own.AllowOff, own.Found, def = true, program, def.WithPermissionsOf(users)
			}
			t, err := tools.Command(def, own)
			if err != nil {
				return tools.Set{}, err
			}
			armed = append(armed, t)
			continue
		}
		if _, ok := def.MCP(); ok {
			if def.Pin == "" {
				continue // of a tool that this run may not have
			}
			if conn := ag.run.conn(); conn != nil {
				def.Timeout = 0 // its owner keeps the time
				armed = append(armed, tools.Tool{Definition: def, Func: conn.Serve})
				continue
			}
			t, err := ag.run.env.Servers.Tool(ctx, def)
			if err != nil {
				return tools.Set{}, err
			}
			armed = append(armed, t)
			continue
		}
		switch def.Source {
		case tools.SourceBuiltin:
			switch conn := ag.run.conn(); {
			case !enabled.IsSkill(def):
				builtin = append(builtin, def)
			case conn != nil:
				ag.Skills = skills.Of(conn.Start().Skills)
				armed = append(armed, tools.Tool{Definition: def, Func: conn.Serve})
			default:
				ag.Skills = ag.run.env.Skills()
				armed = append(armed, tools.Tool{Definition: def, Func: ag.Skills.Read})
			}
		case tools.SourceDelegation, tools.SourceConversation:
			f, ok := funcs(def.Name)
			if !ok {
				return tools.Set{}, exit.Refusedf("tool %s: source %q has no tool of this name", def.Name, def.Source)
			}
			armed = append(armed, tools.Tool{Definition: def, Func: f})
		case tools.SourceInteractive:
			if def.Name != "ask_user" {
				return tools.Set{}, exit.Refusedf("tool %s: source %q has no tool of this name", def.Name, def.Source)
			}
			if !enabled.Says(ag.run.Resolved, def.Name, "run") {
				def.Run = tools.RunUnattended // a question needs no permission of its own
			}
			armed = append(armed, tools.Tool{Definition: def, Func: ag.askUser(def)})
		default:
			return tools.Set{}, exit.Refusedf("tool %s: source %q is not supported yet", def.Name, def.Source)
		}
	}
	if len(builtin) > 0 {
		own, err := tools.Builtin(fs.Env{Workspace: ag.run.Root, Kept: env.Kept}, builtin...)
		if err != nil {
			return tools.Set{}, err
		}
		armed = append(armed, own...)
	}
	return tools.NewSet(armed...)
}

// withinGrant limits what a tool of a sub-agent may do without a question to what its grant
// permits.
func withinGrant(d tools.Definition, grant *convstore.Grant) tools.Definition {
	if grant == nil {
		return d
	}
	return d.WithPermissions(grant.Permissions[d.Name])
}

// line opens the connection to jp for one call of a tool with access.jp.
func (ag *Agent) line(ctx context.Context, def tools.Definition, c tools.Call) (*tools.Line, error) {
	dir, err := ag.run.env.ownFolder()
	if err != nil {
		return nil, err
	}
	command, end := ag.commands(def, c.ID)
	l, err := call.Open(ctx, func(ctx context.Context, r call.Request) int {
		status := command(ctx, r)
		ag.run.env.Con.Logger().Info("jp inside a tool", "conversation", ag.run.Conv.ID, "tool", def.Name, "call", c.ID, "arguments", len(r.Args), "exit", status)
		return status
	})
	if err != nil {
		return nil, err
	}
	return &tools.Line{Socket: l.Socket(), Dir: dir, Close: func() {
		l.Close()
		end(context.WithoutCancel(ctx))
	}}, nil
}

// ownFolder returns a folder with nothing but a link "jp" to this program, for the PATH of a tool.
// It is in a folder of state, which no rule of access.fs covers: no tool can put something else
// there.
func (env *Env) ownFolder() (dir string, err error) {
	program, state := workspace.OwnProgram(), env.WS.StateDir()
	switch {
	case program == "":
		return "", errors.New("the file of this program is gone")
	case state == "":
		return "", errors.New("there is no home folder to keep a link to this program in")
	}
	sum := sha256.Sum256([]byte(program))
	dir = filepath.Join(state, "bin", hex.EncodeToString(sum[:8]))
	link := filepath.Join(dir, "jp")
	if at, err := os.Readlink(link); err == nil && at == program {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Another jp may have made the same link at this moment.
	if err := os.Symlink(program, link); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if at, err := os.Readlink(link); err != nil || at != program {
		return "", fmt.Errorf("%s: is not the link to %s that it should be; remove it", link, program)
	}
	return dir, nil
}
