"""Which characters pass for which: the data behind the escaping.

For every character that the host's own framing is made of, those that a reader
may take for it: what compatibility normalisation, case folding and the loss of
accents turn into it, and its neighbours in the Unicode list of confusables (UTS
39), plus a few that only look alike at a glance (`5` for `s`). It is that of Unicode 18 on every
interpreter, however old its own Unicode is: what is safe must not depend on who runs it. A
test walks all of the Unicode that the interpreter knows and fails if a character that
*normalises* to one of them is missing here.
"""

# ruff: noqa: RUF001 - ambiguous characters are what this table is about

from __future__ import annotations

from typing import Final

LOOKALIKES: Final = {
    "<": "«˂ᐸ᚜ᚲ‹≪≮⋖❬❮❰⟨⟪⧼\u2329\u3008《﹤＜𝈶",
    "s": (
        "$5S§ŚśŜŝŞşŠšſƽȘșˢЅѕՏᏕᏚṠṡṢṣṤṥṦṧṨṩẛₛ⒮ⓈⓢꓢꙅꜱꮪＳｓ𐊖𐐠𐑈𑣁𖼺𝐒𝐬𝑆𝑠𝑺𝒔𝒮𝓈𝓢𝓼𝔖𝔰𝕊𝕤𝕾𝖘𝖲𝗌𝗦𝘀𝘚𝘴𝙎𝙨𝚂𝚜🄢🅂"
        "\ua7f1\U0001cce8"
    ),
    "l": (
        "!1IL|ĹĺĻļĽľłƖǀɭʟˡΙІӀ׀ון۱ᏞᒪᛁᴸḶḷḸḹḺḻḼḽₗℐℑℒℓⅠⅬⅼ∣⏽⒧ⓁⓛⱡⲒⳐⵏꓡꓲＩＬｌ￨𐊊"
        "𐌉𐌠𐐛𐔦𑢣𑢲𖼖𖼨𝈪𝐈𝐋𝐥𝐼𝐿𝑙𝑰𝑳𝒍𝓁𝓘𝓛𝓵𝔏𝔩𝕀𝕃𝕝𝕴𝕷𝖑𝖨𝖫𝗅𝗜𝗟𝗹𝘐𝘓𝘭𝙄𝙇𝙡𝙸𝙻𝚕𝚰𝛪𝜤𝝞𝞘𝟏𝟙𝟣𝟭𝟷🄛🄻🯱"
        "\U0001cce1"
    ),
    "o": (
        "0OºÒÓÔÕÖòóôõöøŌōŎŏŐőƠơǑǒǪǫǬǭȌȍȎȏȪȫȬȭȮȯȰȱΟοσОоՕօ۵०০੦૦ଠ୦௦ం౦ಂ೦ം"
        "ഠ൦ං๐໐ဝ၀ჿዐᴏᴑᴼᵒṌṍṎṏṐṑṒṓỌọỎỏỐốỒồỔổỖỗỘộỚớỜờỞởỠỡỢợₒℴ⊙⒪Ⓞⓞ○◯Ⲟⲟⵔ〇ꓳꬽＯ"
        "ｏ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠𝐎𝐨𝑂𝑜𝑶𝒐𝒪𝓞𝓸𝔒𝔬𝕆𝕠𝕺𝖔𝖮𝗈𝗢𝗼𝘖𝘰𝙊𝙤𝙾𝚘𝚶𝛐𝛔𝛰𝜊𝜎𝜪𝝄𝝈𝝤𝝾𝞂𝞞𝞸𝞼𝟎𝟘𝟢𝟬𝟶🄞🄾"
        "🯰"
        "\U0001cce4"
    ),
    "p": ("PþƿΡρϱРрᏢᑭᴘᴾᵖṔṕṖṗₚℙ⍴⒫ⓅⓟⲢⲣꓑＰｐ𐊕𝐏𝐩𝑃𝑝𝑷𝒑𝒫𝓅𝓟𝓹𝔓𝔭𝕡𝕻𝖕𝖯𝗉𝗣𝗽𝘗𝘱𝙋𝙥𝙿𝚙𝚸𝛒𝛠𝛲𝜌𝜚𝜬𝝆𝝔𝝦𝞀𝞎𝞠𝞺𝟈🄟🄿\U0001cce5"),
    "a": (
        "4@AªÀÁÂÃÄÅàáâãäåĀāĂăĄąǍǎǞǟǠǡǺǻȀȁȂȃȦȧɑΑαАаᎪᗅᴀᴬᵃḀḁẠạẢảẤấẦầẨẩẪẫ"
        "ẬậẮắẰằẲẳẴẵẶặₐÅ⍺⒜ⒶⓐꓮＡａ𐊠𖽀𝐀𝐚𝐴𝑎𝑨𝒂𝒜𝒶𝓐𝓪𝔄𝔞𝔸𝕒𝕬𝖆𝖠𝖺𝗔𝗮𝘈𝘢𝘼𝙖𝙰𝚊𝚨𝛂𝛢𝛼𝜜𝜶𝝖𝝰𝞐𝞪🄐"
        "🄰"
        "\U0001ccd6"
    ),
    "t": (
        "+7TŢţŤťȚțΤτТтᎢᴛᵀᵗṪṫṬṭṮṯṰṱẗₜ⊤⒯Ⓣⓣ⟙ⲦꓔＴｔ𐊗𐊱𐌕𑢼𖼊𝐓𝐭𝑇𝑡𝑻𝒕𝒯𝓉𝓣𝓽𝔗𝔱𝕋𝕥𝕿𝖙𝖳𝗍𝗧𝘁𝘛𝘵𝙏𝙩𝚃𝚝𝚻𝛵𝜯𝝩𝞣🄣🅃🝨\U0001cce9"
    ),
    "c": ("CÇçĆćĈĉĊċČčϲϹСсᏟᴄᶜḈḉℂℭⅭⅽ⒞ⒸⓒⲤⲥꓚꟲꮯＣｃ𐊢𐌂𐐕𐐽𐔜𑣩𑣲𝐂𝐜𝐶𝑐𝑪𝒄𝒞𝒸𝓒𝓬𝔠𝕔𝕮𝖈𝖢𝖼𝗖𝗰𝘊𝘤𝘾𝙘𝙲𝚌🄒🄫🄲🝌\U0001ccd8"),
    "i": (
        "!1Il|ÌÍÎÏìíîïĨĩĪīĬĭĮįİıǏǐȈȉȊȋɩɪ˛ͺιіӏᎥᴵᵢḬḭḮḯỈỉỊịιⁱℐℑℹⅈⅠⅰ⍳⒤Ⓘⓘꙇ"
        "ꭵＩｉ𑣃𝐈𝐢𝐼𝑖𝑰𝒊𝒾𝓘𝓲𝔦𝕀𝕚𝕴𝖎𝖨𝗂𝗜𝗶𝘐𝘪𝙄𝙞𝙸𝚒𝚤𝛊𝜄𝜾𝝸𝞲🄘🄸"
        "\U0001ccde"
    ),
    "n": ("NÑñŃńŅņŇňǸǹɴΝոռᴺṄṅṆṇṈṉṊṋⁿₙℕ⒩ⓃⓝⲚꓠＮｎ𐔓𝐍𝐧𝑁𝑛𝑵𝒏𝒩𝓃𝓝𝓷𝔑𝔫𝕟𝕹𝖓𝖭𝗇𝗡𝗻𝘕𝘯𝙉𝙣𝙽𝚗𝚴𝛮𝜨𝝢𝞜🄝🄽\U0001cce3"),
    "e": (
        "3EÈÉÊËèéêëĒēĔĕĖėĘęĚěȄȅȆȇȨȩΕεЕеҽᎬᴇᴱᵉḔḕḖḗḘḙḚḛḜḝẸẹẺẻẼẽẾếỀềỂểỄễỆ"
        "ệₑ℮ℯℰⅇ⋿⒠ⒺⓔⴹꓰꬲＥｅ𐊆𑢦𑢮𝐄𝐞𝐸𝑒𝑬𝒆𝓔𝓮𝔈𝔢𝔼𝕖𝕰𝖊𝖤𝖾𝗘𝗲𝘌𝘦𝙀𝙚𝙴𝚎𝚬𝛦𝜠𝝚𝞔🄔🄴"
        "\U0001ccda"
    ),
    ":": "ː˸։ःઃ᛬᠃᠉⁚∶ꓽ꞉︓︰﹕：",
    "{": "❴︷﹛｛𝄔",
    "}": "❵︸﹜｝",
    "=": "᐀⁼₌≠⹀゠꓿﹦＝",
    "—": "―⸺︱﹘",
    '"': "＂",
    "(": "⁽₍❨❲〔﴾︵﹙（［",
    ")": "⁾₎❩❳〕﴿︶﹚）］",
    "[": "﹇［",
    "]": "﹈］",
    ",": "¸‚ꓹ︐﹐，",
    "`": "`｀",
}

# The inside of a character class: letters and digits that came after Unicode 14, which is the
# oldest that a supported interpreter has (3.11), up to Unicode 18. With them `\w` means the same
# on all of them; what lies between two of them and is not assigned yet is taken along.
LATER_LETTERS: Final = (
    "\u0558\u058b-\u058c\u088f\u0c5c\u0cdc\u1c89-\u1c8a\u208f-\u209f\ua7cb-\ua7f1"
    "\uab6c-\uab6d\U000105c0-\U000107bf\U00010940-\U00010959\U00010d40-\U00010d65"
    "\U00010d6f-\U00010d85\U00010ec2-\U00010ec7\U00010ed9-\U00010eee\U0001123f-\U00011240"
    "\U00011380-\U000113b7\U000113d1\U000113d3\U000116d0-\U000116e3\U00011b0a"
    "\U00011bc0-\U00011be0\U00011bf0-\U00011bf9\U00011db0-\U00011de9\U00011df1\U00011f02"
    "\U00011f04-\U00011f33\U00011f50-\U00011f59\U0001246f\U00012475-\U00012686\U0001342f"
    "\U00013441-\U00013446\U00013460-\U0001611d\U00016130-\U00016139\U00016d40-\U00016d6c"
    "\U00016d70-\U00016d79\U00016ea0-\U00016ed3\U00016ff2-\U0001b168\U0001ccf0-\U0001ccf9"
    "\U0001d2c0-\U0001d2d3\U0001d6a6\U0001df1f-\U0001dfff\U0001e030-\U0001e06d"
    "\U0001e4d0-\U0001e4eb\U0001e4f0-\U0001e5ed\U0001e5f0-\U0001e5fa\U0001e6c0-\U0001e6e2"
    "\U0001e6e4-\U0001e6e5\U0001e6e7-\U0001e6ed\U0001e6f0-\U0001e6f4\U0001e6fe-\U0001e6ff"
    "\U0002b739-\U0003fc3f"
)
