package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools"
)

// result returns an answer for a model: its texts, and a line for each other piece.
func result(r *sdk.CallToolResult) tools.Result {
	if r.NeedsInput() {
		return tools.Result{Text: "the server asks for something (elicitation, sampling or roots), which is refused", IsError: true}
	}
	var parts []string
	for _, c := range r.Content {
		parts = append(parts, content(c))
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, cleanText(string(b)))
		}
	}
	return tools.Result{Text: strings.Join(parts, "\n"), IsError: r.IsError}
}

func content(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return cleanText(c.Text)
	case *sdk.ImageContent:
		return left("an image", c.MIMEType, len(c.Data))
	case *sdk.AudioContent:
		return left("a sound", c.MIMEType, len(c.Data))
	case *sdk.ResourceLink:
		return "[resource " + cleanText(c.URI) + "]"
	case *sdk.EmbeddedResource:
		switch {
		case c.Resource == nil:
		case c.Resource.Blob != nil:
			return left("a file "+c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob))
		default:
			return "[resource " + cleanText(c.Resource.URI) + "]\n" + cleanText(c.Resource.Text)
		}
	}
	return "[left out: content of an unknown kind]"
}

func left(what, kind string, size int) string {
	return cleanText(fmt.Sprintf("[left out: %s, %s, %d bytes]", what, kind, size))
}
