package run

import (
	"context"
	"encoding/json"
	"strings"

	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/exit"
	"jp/tools/schema"
)

// AnswerSchema returns the schema of --schema: JSON, or @ and the path of a file.
func (env *Env) AnswerSchema(ctx context.Context, value string) (json.RawMessage, error) {
	raw := []byte(value)
	if path, ok := strings.CutPrefix(value, "@"); ok {
		root, err := env.WS.Root()
		if err != nil {
			return nil, err
		}
		r := attach.Reader{Dir: env.Con.Env.Dir, Workspace: root}
		switch raw, err = r.Schema(ctx, path); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, exit.Usagef("--schema: %v", err)
		}
	}
	return parseAnswer(raw)
}

// InlineSchema is AnswerSchema for a jp inside a tool, which names no file: this process may read
// more than the tool.
func InlineSchema(value string) (json.RawMessage, error) {
	if strings.HasPrefix(value, "@") {
		return nil, exit.Refusedf("--schema %s: inside a tool it takes no file", value).WithHint(`--schema "$(cat FILE)"`)
	}
	return parseAnswer([]byte(value))
}

func parseAnswer(raw []byte) (json.RawMessage, error) {
	s, err := schema.ParseAnswer(raw)
	if err != nil {
		return nil, exit.Usagef("--schema: %v", err)
	}
	return s.JSON(), nil
}
