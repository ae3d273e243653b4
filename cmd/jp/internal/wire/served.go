package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"jp/cmd/jp/internal/agent"
	"jp/tools"
)

// What a sub-agent knows of MCP servers and skills: tools as they were approved, names, and the
// results of its calls. The owner starts the servers, and reads the skills that have passed its
// gate. It takes the arguments of a call from the store, so a tool is called with what the
// conversation shows, and once for each call that it shows.

// Pin is a tool that the owner calls. One of an MCP server is as it was approved; see
// tools.Definition.Pinned.
type Pin struct {
	Tool        string          `json:"tool"` // name of the definition
	Pin         string          `json:"pin"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// Skill is a skill that the owner can read.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// served is a call of a tool that the owner calls.
type served struct {
	Tool string `json:"tool"`
	Call string `json:"call"` // id of the tool call
}

// Pinned joins the tools of MCP servers among defs to their pins. A tool without a pin is not held.
func (c *Conn) Pinned(defs []tools.Definition) ([]tools.Definition, error) {
	var list []tools.Definition
	for _, d := range defs {
		if _, ok := d.MCP(); ok {
			for _, p := range c.start.Pins {
				if p.Tool != d.Name {
					continue
				}
				var err error
				if d, err = d.Pinned(p.Pin, p.Description, p.Schema); err != nil {
					return nil, err
				}
			}
		}
		list = append(list, d)
	}
	return list, nil
}

// Serve is the tools.Func of a tool that the owner calls. It ends the call when the tool's time is
// over.
func (c *Conn) Serve(ctx context.Context, call tools.Call) (tools.Result, error) {
	a, err := c.ask(ctx, fromChild{Serve: &served{call.Name, call.ID}}, &asked{})
	if err == nil {
		err = a.Error.err()
	}
	switch {
	case err != nil:
		return tools.Result{}, err
	case a.Result == nil:
		return tools.Result{}, &FrameError{"no result in the answer"}
	case a.Result.IsError && ctx.Err() != nil: // it says that the call was cancelled
		return tools.Result{}, context.Cause(ctx)
	}
	return *a.Result, nil
}

// serves reports whether a tool is one that the owner calls.
func (o *Owner) serves(tool string) bool {
	return slices.ContainsFunc(o.Start.Pins, func(p Pin) bool { return p.Tool == tool })
}

// callOf returns the call that a sub-agent asks for, with its arguments as they are stored.
func (s *server) callOf(c served) (tools.Call, error) {
	if !s.owner.serves(c.Tool) {
		return tools.Call{}, &FrameError{fmt.Sprintf("call %.64q of the tool %.64q: is none that its owner calls", c.Call, c.Tool)}
	}
	args, err := s.turn.serve(c.Call, c.Tool)
	return tools.Call{ID: c.Call, Name: c.Tool, Arguments: agent.RawArguments(args)}, err
}
