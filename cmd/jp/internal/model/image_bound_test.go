package model

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"iter"
	"testing"
)

// picture is an image of a size in a form.
func picture(t *testing.T, mediaType string, w, h int) *Image {
	t.Helper()
	var b bytes.Buffer
	var err error
	pixels := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black})
	switch mediaType {
	case "image/png":
		err = png.Encode(&b, pixels)
	case "image/jpeg":
		err = jpeg.Encode(&b, pixels, nil)
	case "image/gif":
		err = gif.Encode(&b, pixels, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Image{MediaType: mediaType, Data: b.Bytes()}
}

// TestImageBound compares the bounds with what vendors document of a size, or have been seen to
// charge.
func TestImageBound(t *testing.T) {
	for _, tt := range []struct {
		model string
		w, h  int
		least int64 // that is charged
		most  int64 // of the bound
	}{
		{"gpt-4o-mini", 512, 512, 8500, 8500},
		{"gpt-4o-mini", 1024, 1024, 25501, 25501},
		{"gpt-4o-mini-2024-07-18", 1024, 1024, 25501, 25501},
		{"openai/gpt-4o-mini", 1024, 1024, 25501, 25501},
		{"ft:gpt-4o-mini-2024-07-18:me::x", 1024, 1024, 25501, 25501},
		{"gpt-4o", 1024, 1024, 765, 765},
		{"gpt-4o", 2048, 4096, 1105, 1105},
		{"gpt-4.1", 2049, 513, 1445, 1445},
		{"gpt-4.1", 2050, 513, 765, 1445},
		{"gpt-4.1-mini", 1024, 1024, 1659, 1659},
		{"gpt-4.1-mini", 4000, 1474, 2488, 2489},
		{"gpt-4.1-nano", 1024, 1024, 2520, 2520},
		{"o4-mini", 1024, 1024, 1762, 1762},
		{"gpt-5-mini", 1024, 1024, 1229, 1659},
		{"gpt-5-nano", 2048, 768, 2304, 3779},
		{"gpt-5", 64, 64, 210, 210},
		{"gpt-5", 1024, 1024, 630, 1659},
		{"gpt-5.4", 1600, 1600, 2500, 4051},
		{"gpt-5.5", 3200, 3200, 10_000, 24_600},
		{"gpt-5.6-sol", 5540, 5540, 30_000, 73_800},
		{"gemini-2.5-flash", 960, 540, 1548, 2000},
		{"gemini-3-pro", 100, 100, 1120, 1120},
		{"claude-opus-4-8", 2576, 2576, 4784, 5000},
		{"qwen2.5-vl", 3584, 3584, 16384, 16384},
		{"llava", 100, 100, 576, 5000},
	} {
		for _, form := range []string{"image/png", "image/jpeg", "image/gif"} {
			if got := imageBound(tt.model, picture(t, form, tt.w, tt.h)); got < tt.least || got > tt.most {
				t.Errorf("%s, %s of %d x %d: %d tokens, want %d to %d", tt.model, form, tt.w, tt.h, got, tt.least, tt.most)
			}
		}
	}
}

// TestImageBoundOfAnySize: an image whose size cannot be read counts as much as any.
func TestImageBoundOfAnySize(t *testing.T) {
	broken := &Image{MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")}
	webp := &Image{MediaType: "image/webp", Data: []byte("RIFF")}
	for model, want := range map[string]int64{"gpt-4o-mini": 2833 + 8*5667, "gpt-4.1-nano": 3779, "gpt-5": 4051, "gemini-2.5-pro": 64 * 258, "claude-x": 5000, "x": 16384} {
		if got := imageBound(model, broken); got != want {
			t.Errorf("%s: %d tokens of what cannot be read, want %d", model, got, want)
		}
		if got := imageBound(model, webp); got != want {
			t.Errorf("%s: %d tokens of WebP, want %d", model, got, want)
		}
		for _, size := range [][2]int{{1, 1}, {3000, 1}, {2048, 768}, {2500, 900}, {5000, 5000}, {60, 6000}} {
			if got := imageBound(model, picture(t, "image/png", size[0], size[1])); got > want {
				t.Errorf("%s: %d tokens of %v, want at most %d", model, got, size, want)
			}
		}
	}
}

// TestEstimateOfImages: what nobody counted is charged by the model and the size of the image, and
// never less.
func TestEstimateOfImages(t *testing.T) {
	for _, tt := range []struct {
		model string
		w, h  int
		least int64 // tokens that are charged, without texts
		most  int64
	}{
		{"gpt-4o-mini", 1024, 1024, 25501, 25600},
		{"gpt-4o", 64, 64, 255, 350},
		{"claude-sonnet-5-5", 2576, 2576, 4784, 5100},
		{"gemini-3-pro", 100, 100, 1120, 1220},
	} {
		i := picture(t, "image/png", tt.w, tt.h)
		r := Request{Model: tt.model, Messages: []Message{{Role: User, Content: []Content{{Text: "what is it?"}, {Image: i}, {Image: i}}}}}
		if got := r.Estimate(); got < 2*tt.least || got > 2*tt.most {
			t.Errorf("%s, two of %d x %d: %d tokens, want %d to %d", tt.model, tt.w, tt.h, got, 2*tt.least, 2*tt.most)
		}
		silent := func(context.Context, Request) iter.Seq2[Part, error] {
			return func(yield func(Part, error) bool) {
				_ = yield(Part{Text: "a cat"}, nil) && yield(Part{Stop: "end"}, nil)
			}
		}
		for p, err := range Count(silent)(t.Context(), r) {
			if err != nil || p.Usage != nil && (!p.Estimated || p.Usage.Input < 2*tt.least) {
				t.Errorf("%s, two of %d x %d: charged %+v, %v, want %d at least", tt.model, tt.w, tt.h, p.Usage, err, 2*tt.least)
			}
		}
	}
}

// TestGIFFrame: a frame that is larger than the image which the header says counts as it is.
func TestGIFFrame(t *testing.T) {
	var b bytes.Buffer
	frame := func(w, h int) *image.Paletted {
		return image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	}
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame(640, 320), frame(640, 320)}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	i := &Image{MediaType: "image/gif", Data: b.Bytes()}
	if got := imagePixels(i); got != image.Pt(640, 320) {
		t.Errorf("%v as it is", got)
	}
	copy(i.Data[6:], []byte{1, 0, 1, 0}) // width and height
	if got := imagePixels(i); got != image.Pt(640, 320) {
		t.Errorf("%v with a small image", got)
	}
	i.Data = i.Data[:40]
	if got := imagePixels(i); got != (image.Point{}) {
		t.Errorf("%v without a frame", got)
	}
}
