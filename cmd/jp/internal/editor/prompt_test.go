package editor

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/console"
)

func TestPrompted(t *testing.T) {
	dir := t.TempDir()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"a.txt": "A\n", "b c.txt": "B\n", "p.png": picture.String(), "bin": "\x00\xff", "dir/x": "X\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, uri string) acp.Block { return acp.Block{Type: acp.TypeLink, Name: name, URI: uri} }
	text, none := "content", ""
	resource := func(r acp.Resource) acp.Block { return acp.Block{Type: acp.TypeResource, Resource: &r} }
	for _, tt := range []struct {
		name   string
		blocks []acp.Block
		want   string // text | title | attachments, or the error; DIR is dir
	}{
		{"text", []acp.Block{acp.Text("one"), acp.Text("two\n")}, "one\ntwo | one\ntwo\n | []"},
		{"file", []acp.Block{acp.Text("see "), link("a.txt", "file://"+dir+"/a.txt"), acp.Text("!")},
			`see [a.txt](file://DIR/a.txt)! | see a.txt! | [DIR/a.txt text/plain "A\n"]`},
		{"escaped", []acp.Block{link("b", "file://"+dir+"/b%20c.txt")}, `[b](file://DIR/b%20c.txt) | b | [DIR/b c.txt text/plain "B\n"]`},
		{"part", []acp.Block{link("a", "file://localhost"+dir+"/a.txt#L1")}, `[a](file://localhostDIR/a.txt#L1) | a | [DIR/a.txt text/plain "A\n"]`},
		{"image file", []acp.Block{link("p", "file://"+dir+"/p.png")}, `[p](file://DIR/p.png) | p | [DIR/p.png image/png ""]`},
		{"folder", []acp.Block{link("dir", "file://"+dir+"/dir")}, "[dir](file://DIR/dir) | dir | []"},
		{"of the editor", []acp.Block{link("rules", "zed:///rules/1")}, "[rules](zed:///rules/1) | rules | []"},
		{"with a key", []acp.Block{resource(acp.Resource{URI: "https://example.com/a?key=secret", Text: &text})},
			`[a](https://example.com/a?key=...) | a | [https://example.com/a?key=... text/plain "content"]`},
		{"with a password", []acp.Block{resource(acp.Resource{URI: "https://me:secret@example.com/", Text: &text})},
			`[/](https://example.com/) | / | [https://example.com/ text/plain "content"]`},
		{"a picture with a key", []acp.Block{{Type: acp.TypeImage, URI: "https://example.com/p.png?key=secret", Data: picture.Bytes()}},
			`[https://example.com/p.png?key=...] | https://example.com/p.png?key=... | [https://example.com/p.png?key=... image/png ""]`},
		{"an address that is none", []acp.Block{resource(acp.Resource{URI: " https://me:sec%ret@h/%zz?key=secret", Text: &text})},
			`[https://h/%zz?key=...](https://h/%zz?key=...) | https://h/%zz?key=... | [https://h/%zz?key=... text/plain "content"]`},
		{"no port", []acp.Block{resource(acp.Resource{URI: "HTTPS://h:p?key=secret", Text: &text})},
			`[HTTPS://h:p?key=...](HTTPS://h:p?key=...) | HTTPS://h:p?key=... | [HTTPS://h:p?key=... text/plain "content"]`},
		{"no host", []acp.Block{resource(acp.Resource{URI: "https:x@a?key=secret", Text: &text})},
			`[https:a?key=...](https:a?key=...) | https:a?key=... | [https:a?key=... text/plain "content"]`},
		{"a name that is an address", []acp.Block{link("https://me:x@h/a?key=secret", "zed://a")}, "[https://h/a?key=...](zed://a) | https://h/a?key=... | []"},
		{"a ? of the editor", []acp.Block{link("", "zed://a?path=b.go")}, "[zed://a?path=b.go](zed://a?path=b.go) | zed://a?path=b.go | []"},
		{"a file with a ?", []acp.Block{link("a", "file://"+dir+"/a.txt?b=c")}, `[a](file://DIR/a.txt?b=c) | a | [DIR/a.txt text/plain "A\n"]`},
		{"image", []acp.Block{acp.Text("what is "), {Type: acp.TypeImage, Data: picture.Bytes(), MIMEType: "image/png"}}, `what is [image 1] | what is image 1 | [image 1 image/png ""]`},
		{"embedded", []acp.Block{resource(acp.Resource{URI: "file://" + dir + "/open.go#L2:3", Text: &text})},
			`[open.go](file://DIR/open.go#L2:3) | open.go | [DIR/open.go#L2:3 text/plain "content"]`},
		{"empty", []acp.Block{resource(acp.Resource{URI: "x:1", Text: &none})}, `[x:1](x:1) | x:1 | [x:1 text/plain ""]`},
		{"blob", []acp.Block{resource(acp.Resource{URI: "x:1", Blob: picture.Bytes()})}, `[x:1](x:1) | x:1 | [x:1 image/png ""]`},

		{"nothing", nil, "prompt: is empty"},
		{"blank", []acp.Block{acp.Text(" \n")}, "prompt: is empty"},
		{"no file", []acp.Block{acp.Text("x"), link("a", "file://"+dir+"/gone")}, "prompt[1]: DIR/gone: no such file or directory"},
		{"no text", []acp.Block{link("a", "file://"+dir+"/bin")}, "prompt[0]: DIR/bin: is neither UTF-8 text nor an image (PNG, JPEG, GIF, WebP)"},
		{"elsewhere", []acp.Block{link("a", "file://host/etc/passwd")}, "prompt[0]: file://host/etc/passwd: is on another machine"},
		{"relative", []acp.Block{link("a", "file:a.txt")}, "prompt[0]: file:a.txt: is not an absolute path"},
		{"device", []acp.Block{link("a", "file:///dev/zero")}, "prompt[0]: /dev/zero: is not a regular file"},
		{"no address", []acp.Block{link("a", "")}, `prompt[0]: "": is not an address`},
		{"plain http", []acp.Block{link("a", "http://example.com/")}, "prompt[0]: http://example.com/: http is read from this machine only; use https"},
		{"no image", []acp.Block{{Type: acp.TypeImage, Data: []byte("text")}}, "prompt[0]: image 1: is not an image (PNG, JPEG, GIF, WebP)"},
		{"no content", []acp.Block{{Type: acp.TypeResource}}, "prompt[0]: resource: has no content or no uri"},
		{"audio", []acp.Block{{Type: acp.TypeAudio}}, "prompt[0]: audio is not supported"},
		{"new type", []acp.Block{{Type: "hologram"}}, `prompt[0]: block type "hologram" is not supported`},
		{"large", []acp.Block{acp.Text("x"), resource(acp.Resource{URI: "x:1", Blob: []byte(strings.Repeat("x", 1<<20+1))})}, "prompt[1]: x:1: is larger than 1024 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := prompted(t.Context(), console.New(console.Env{Dir: dir}), dir, tt.blocks)
			text := fmt.Sprint(err)
			if err == nil {
				var list []string
				for _, a := range got.Attachments {
					list = append(list, fmt.Sprintf("%s %s %q", a.Source, a.MediaType, a.Text))
				}
				text = fmt.Sprintf("%s | %s | %s", got.Text, got.Title, list)
			}
			if text = strings.ReplaceAll(text, dir, "DIR"); text != tt.want {
				t.Errorf("prompted = %s\nwant       %s", text, tt.want)
			}
		})
	}
}
