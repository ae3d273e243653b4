package model

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
)

// imageRule says how many tokens a family of models counts an image as, at most.
type imageRule struct {
	models string                       // beginning of the names of its models, without vendor
	tokens func(size image.Point) int64 // tokens for a size, or for any size where it is zero
}

// imageRules are tried in order. They follow what vendors document:
//
//   - OpenAI (platform.openai.com/docs/guides/images-vision): older models count tiles of 512
//     pixels, newer ones patches of 32, times a factor. Where the documented factor is higher than
//     what is charged, it is the documented one. No request of jp says "low" or "high", so that the
//     model's own choice counts, which is "original" from gpt-5.5 on.
//   - Gemini (ai.google.dev/gemini-api/docs/tokens): 258 for each tile; from Gemini 3 on 1120.
//   - Anthropic (platform.claude.com/docs/en/build-with-claude/vision): width times height by 750
//     of an image that is scaled to at most 4784 tokens.
func imageRules() []imageRule {
	return []imageRule{
		{"gpt-4o-mini", tiles(2833, 5667)},
		{"gpt-4.1-mini", patches(1536, 1.62)},
		{"gpt-4.1-nano", patches(1536, 2.46)},
		{"o4-mini", patches(1536, 1.72)},
		{"codex-mini", patches(1536, 1.72)},
		{"gpt-5-nano", patches(1536, 2.46)},
		{"gpt-5.4-nano", patches(1536, 2.46)},
		{"gpt-5.1", either(patches(2500, 1.62), tiles(70, 140))},
		{"gpt-5.2", either(patches(2500, 1.62), tiles(70, 140))},
		{"gpt-5.3", either(patches(2500, 1.62), tiles(70, 140))},
		{"gpt-5.4", either(patches(2500, 1.62), tiles(70, 140))},
		{"gpt-5.5", patches(10_000, 2.46)},
		{"gpt-5.", patches(30_000, 2.46)},
		{"gpt-5", either(patches(2500, 1.62), tiles(70, 140))},
		{"gpt-4", tiles(85, 170)},
		{"chatgpt-4", tiles(85, 170)},
		{"computer-use", tiles(85, 170)},
		{"o1", tiles(85, 170)},
		{"o3", tiles(85, 170)},
		{"gpt-", patches(30_000, 2.46)},
		{"gemini-", crops},
		{"claude-", func(image.Point) int64 { return 5000 }},
	}
}

// otherImage is the rule for all other models: models that people run themselves count squares of
// 28 pixels.
func otherImage(size image.Point) int64 { return max(5000, squares(size, 28, 16<<10)) }

// imageBound returns the most tokens that a model counts an image as.
func imageBound(model string, i *Image) int64 {
	model = strings.TrimPrefix(strings.ToLower(model[strings.LastIndexByte(model, '/')+1:]), "ft:")
	for _, r := range imageRules() {
		if strings.HasPrefix(model, r.models) {
			return r.tokens(imagePixels(i))
		}
	}
	return otherImage(imagePixels(i))
}

// imagePixels returns the width and height in the header of an image, zero where that cannot be
// read.
func imagePixels(i *Image) image.Point {
	c, err, r := image.Config{}, error(nil), bytes.NewReader(i.Data)
	switch i.MediaType {
	case "image/png":
		c, err = png.DecodeConfig(r)
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(r)
	case "image/gif":
		c, err = gif.DecodeConfig(r)
	}
	if err != nil || c.Width <= 0 || c.Height <= 0 {
		return image.Point{}
	}
	size := image.Pt(c.Width, c.Height)
	if i.MediaType == "image/gif" {
		frame := gifFrame(i.Data)
		if frame == (image.Point{}) {
			return frame
		}
		size = image.Pt(max(size.X, frame.X), max(size.Y, frame.Y))
	}
	return size
}

// gifFrame returns the right and lower end of the first frame of a GIF, zero if there is none.
// Where it is beyond the image that the header says, decoders enlarge the image.
func gifFrame(data []byte) image.Point {
	at := 13
	if flags := data[10]; flags&0x80 != 0 {
		at += 3 << (flags&7 + 1) // colors
	}
	for at+9 <= len(data) {
		switch data[at] {
		case ',':
			n := func(i int) int { return int(binary.LittleEndian.Uint16(data[at+i:])) }
			return image.Pt(n(1)+n(5), n(3)+n(7))
		case '!': // extension
			for at += 2; at < len(data) && data[at] != 0; at += int(data[at]) + 1 {
			}
			at++
		default:
			return image.Point{}
		}
	}
	return image.Point{}
}

// tiles counts squares of 512 pixels, after an image was scaled to fit into 2048 by 2048, and then
// its shorter side to 768.
func tiles(base, tile int64) func(image.Point) int64 {
	return func(size image.Point) int64 {
		if size == (image.Point{}) {
			return base + 8*tile
		}
		w, h := float64(size.X), float64(size.Y)
		scale := min(1, 2048/max(w, h))
		scale = min(scale, 768/min(w, h))
		side := func(n float64) int64 { return int64(math.Ceil(math.Ceil(n*scale) / 512)) }
		return base + tile*side(w)*side(h)
	}
}

// patches counts squares of 32 pixels, at most so many, each as so many tokens.
func patches(most int64, tokens float64) func(image.Point) int64 {
	return func(size image.Point) int64 { return int64(math.Ceil(float64(squares(size, 32, most)) * tokens)) }
}

// squares returns how many squares cover an image, at most so many.
func squares(size image.Point, side, most int64) int64 {
	if size == (image.Point{}) {
		return most
	}
	return min(most, (int64(size.X)+side-1)/side*((int64(size.Y)+side-1)/side))
}

// crops counts 258 tokens for each square that is two thirds of the shorter side, and 256 to 768
// pixels; at most 64 of them.
func crops(size image.Point) int64 {
	side := min(max(int64(min(size.X, size.Y))*2/3, 256), 768)
	return max(1120, 258*squares(size, side, 64))
}

// either returns the higher one of two counts.
func either(a, b func(image.Point) int64) func(image.Point) int64 {
	return func(size image.Point) int64 { return max(a(size), b(size)) }
}
