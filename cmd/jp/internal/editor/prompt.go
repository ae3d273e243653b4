package editor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// prompted returns the task of an editor's prompt. The text names everything that the prompt
// mentions. The content of a file, of a page, or that the editor sent, is attached. A folder, and
// an address that only the editor can read, are only named.
func prompted(ctx context.Context, con *console.Console, root string, prompt []acp.Block) (run.Task, error) {
	p := prompting{r: attach.Reader{Dir: con.Env.Dir, Workspace: root, Notice: func(s string) { con.Warn("%s", s) }}}
	for i, b := range prompt {
		if err := p.add(ctx, b); err != nil {
			if errors.As(err, new(*attach.FetchError)) || ctx.Err() != nil {
				return run.Task{}, err
			}
			return run.Task{}, acp.Paramsf("prompt[%d]: %v", i, err)
		}
	}
	text, err := run.Clean(p.text.String())
	switch {
	case err != nil:
		return run.Task{}, acp.Paramsf("%v", err)
	case strings.TrimSpace(text) == "":
		return run.Task{}, acp.Paramsf("prompt: is empty")
	}
	return run.Task{Text: text, Title: p.title.String(), Attachments: p.attachments}, nil
}

// prompting builds the task of a prompt from its blocks.
type prompting struct {
	r           attach.Reader
	text, title strings.Builder
	last        string // type of the previous block
	images      int
	attachments []convstore.Attachment
}

func (p *prompting) add(ctx context.Context, b acp.Block) error {
	defer func() { p.last = b.Type }()
	switch b.Type {
	case acp.TypeText:
		if p.last == acp.TypeText { // a text after a mention continues its line
			p.put("\n", "\n")
		}
		p.put(b.Text, b.Text)
		return nil
	case acp.TypeImage:
		p.images++
		source := cmp.Or(shown(b.URI), fmt.Sprintf("image %d", p.images))
		p.mention(source, "")
		if _, ok := attach.Image(b.Data); !ok {
			return fmt.Errorf("%s: is not an image (PNG, JPEG, GIF, WebP)", source)
		}
		return p.attach(p.r.Bytes(source, b.Data))
	case acp.TypeLink:
		p.mention(cmp.Or(shown(b.Name), shown(b.URI)), shown(b.URI))
		return p.link(ctx, b.URI)
	case acp.TypeResource:
		r := b.Resource
		if r == nil || r.URI == "" {
			return errors.New("resource: has no content or no uri")
		}
		p.mention(name(r.URI), shown(r.URI))
		if r.Text != nil {
			return p.attach(p.r.Text(source(r.URI), *r.Text))
		}
		return p.attach(p.r.Bytes(source(r.URI), r.Blob))
	case acp.TypeAudio:
		return errors.New("audio is not supported")
	}
	return fmt.Errorf("block type %q is not supported", b.Type)
}

// mention adds a link to the text, and its name to the title.
func (p *prompting) mention(name, uri string) {
	p.put("["+name+"]"+wording.Either(uri == "", "", "("+uri+")"), name)
}

func (p *prompting) put(text, title string) {
	p.text.WriteString(text)
	p.title.WriteString(title)
}

func (p *prompting) attach(a convstore.Attachment, err error) error {
	if err != nil {
		return err
	}
	p.attachments = append(p.attachments, a)
	return nil
}

// link attaches the file or page of an address.
func (p *prompting) link(ctx context.Context, uri string) error {
	u, err := url.Parse(uri)
	if err != nil || uri == "" {
		return fmt.Errorf("%q: is not an address", uri)
	}
	switch u.Scheme {
	case "http", "https":
		return p.attach(p.r.URL(ctx, uri))
	case "file":
		path, err := filePath(u)
		if err != nil {
			return err
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil // only named, in the text
		}
		return p.attach(p.r.File(path))
	}
	return nil
}

// filePath returns the path of a file's address. Only the text names a part of the file.
func filePath(u *url.URL) (string, error) {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("%s: is on another machine", u)
	case !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0):
		return "", fmt.Errorf("%s: is not an absolute path", u)
	}
	return filepath.Clean(u.Path), nil
}

// source returns the Source of an attachment for an address: for a file, its path.
func source(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Scheme == "file" {
		if path, err := filePath(u); err == nil {
			return path + wording.Either(u.Fragment == "", "", "#"+u.Fragment)
		}
	}
	return shown(uri)
}

// shown returns an address as a model and the store get it: that of a page, also one that cannot be
// parsed, has neither a user nor the values of its query. Other text stays.
func shown(uri string) string {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(uri), ":")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return uri
	}
	return attach.WithoutValues(scheme + ":" + regexp.MustCompile(`^(/*)[^/?#]*@`).ReplaceAllString(rest, "$1"))
}

// name returns the last part of an address.
func name(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Path != "" {
		return filepath.Base(u.Path)
	}
	return shown(uri)
}
