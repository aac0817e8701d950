"""The phrases around an answer, as data: how people and models announce, choose, correct and close, by language.

Entries are fragments of patterns (:mod:`pets.patterns`), in lower case, without groups; a blank stands for any run of
blanks.
"""

LATIN_ANNOUNCEMENTS = (
    ("answers?|ans", "is|are|was|equals?|(?:would|should|must|will|has to|can only) be|comes (?:out )?to|becomes"),
    ("antwort(?:option)?|lösung(?:sbuchstabe)?", "ist|sind|lautet|wäre|beträgt"),
    ("réponse|reponse", "est|sont|serait"),
    ("respuesta", "es|son|sería|será|seria"),
    ("risposta", "è|e'|sono|sarebbe|sarà"),
    ("resposta", "é|são|seria|será"),
    ("antwoord", "is|zijn|luidt"),
    ("svaret|svar|rätt svar|riktig svar", "är|er|blir"),
    ("odpowiedź|odpowiedzią", "to|jest|brzmi"),
    ("odpověď|odpoveď", "je|zní"),
    ("răspunsul|răspuns", "este|e"),
    ("vastaus", "on"),
    ("válasz", "az?"),
    ("cevap|yanıt", "şudur"),
    ("jawaban(?:nya)?", "adalah|ialah"),
    ("đáp án|câu trả lời", "là"),
    ("ответ(?:ом)?|вариант|відповідь", "является|будет|есть|є|[—–-]"),
    ("απάντηση", "είναι"),
    ("उत्तर", "है"),
    ("الإجابة|الجواب", "هي|هو"),
    ("תשובה", "היא"),
)
"""A noun for the answer and the verbs that follow it; a colon, an equals sign or an arrow does as well as a verb."""

ANNOUNCEMENTS = (
    "(?:正确|最终|最後|最后|正確)?(?:答案|答)[^。：:，,\n]{0,20}?(?:应该是|應該是|应为|應為|就是|是|为|為|选择|選擇|选|選|[:：])",
    "(?:正确|正確)(?:选项|選項)(?:是|为|為|[:：])",
    "(?:故|本题|此题|本題|因此|所以|应|應|應該|应该|我|我会|我會)(?:选择|選擇|选|選)[:：]?",
    "(?:答え|解答|正解|回答)[^。：:、\n]{0,20}?(?:は|[:：])",
    "(?:정답|답|해답|답변)(?:은|는|이|[:：])",
)
"""The same in languages that write no blanks between words."""

WEAK_NOUNS = (
    "solution|result|conclusion|verdict|total|output|final value|value|lösung|ergebnis|résultat|resultado|risultato"
    "|solución|solução|resultaat|результат|итого|итог|结果|结论|結果|결과|sum|tl;dr|bottom line|choice|option"
    "|pick|guess"
)
"""Nouns that announce an answer near the end of a text, and an intermediate step elsewhere."""

RIGHT = (
    "correct|right|final|best|true|most (?:accurate|appropriate|likely|plausible|suitable)|richtige?|korrekte?|beste"
    "|bonne|correcte?|juste|exacte|correct[ao]|cert[ao]|corretta|corretto|giusta|esatta|juiste?|rätt|riktig|poprawna"
    "|правильн(?:ый|о|ая|ым)|верн(?:ый|о|ым)|doğru"
)

ADVERBS = (
    "therefore|thus|hence|indeed|clearly|definitely|certainly|obviously|probably|most likely|likely|simply|then|also"
    "|in fact|actually|daher|also|somit|eindeutig|donc|bien|entonces|quindi|portanto|dus|dunque|approximately|about"
    "|roughly|exactly"
)

VERDICTS = (
    ("is|are|must be|would be|seems(?: to be)?|appears to be|has to be", "the|my|your|our", ("answer|option|choice|one|"
     "statement|solution|selection|pick")),
    ("ist|sind|wäre", "die|das", "antwort|option|lösung|aussage"),
    ("est|sont|serait", "la|le", "réponse|option|choix"),
    ("es|son|sería", "la|el", "respuesta|opción|alternativa"),
    ("è|sono", "la|quella", "risposta|opzione"),
    ("é|são", "a|o", "resposta|opção|alternativa"),
    ("is|zijn", "het|de", "antwoord|optie"),
    ("är|er", "det|den", "svaret|alternativet"),
    ("является|[—–-]|это", "", "ответ(?:ом)?|вариант"),
)  # fmt: skip
"""What follows an answer that is named first ("B is the correct answer"): verbs, articles, nouns."""

CHOOSING = (
    r"i(?:['’]d| would| will|['’]ll|['’]m going to| am going to| must| have to)?(?: therefore| thus| then| probably"
    r"| definitely)? (?:choose|pick|select|go(?:ing)? (?:with|for)|vote for|opt for|answer(?: with)?"
    r"|conclude(?: that)?(?: it is)?)|i['’]d say|i would say|my (?:final |best )?(?:choice|pick|guess|answer|selection"
    r"|vote)(?: is| would be|:)|i['’]m going with|let['’]s go with|we (?:choose|pick|select)|the (?:correct |right "
    r"|best )?(?:option|choice)(?: is|:)|(?:the )?(?:correct|right|best) (?:one |option |choice |statement "
    r"|alternative |letter )?(?:is|:)|ich (?:wähle|würde|nehme|entscheide mich für)|je (?:choisis|choisirais|dirais"
    r"|réponds)|elijo|yo elegiría|escolho|eu escolheria|scelgo|sceglierei|ik kies|я выбираю|выбираю|i(?:['’]m"
    r"| am)? lean(?:ing)? towards?|i(?: would|['’]d)? guess|i(?:['’]d| would) have to say(?: it['’]?s| it is)?"
    r"|(?:correct|right|best|false|true) (?:option|choice|statement|alternative|answer)[^.:\n]{0,30}? is|(?:statement"
    r"|option|choice|one) (?:that|which) [^.:\n]{0,40}? is ›[(\[*]{0,4}[a-z]\W|(?:odd one out|exception) is"
    r"|(?:alternativa|opção|opción|opzione|option|lettera|letra) (?:correct[ae]|correta|corretta|certa|giusta) (?:é|es"
    r"|è|est)|ans\. |(?:richtig|korrekt) ist|es correcta la|la correcta es|(?:opção|opción|opzione"
    r"|option) correct[ae] (?:é|es|è|est)"
)

CORRECTIONS = (
    "wait|scratch that|correction|oops|no wait|hold on|on second thought|i mean|i meant|let me correct"
    "|i made (?:a|an) (?:mistake|error|slip)|i need to correct|that was (?:wrong|incorrect|a mistake)|sorry"
    "|my mistake|strike that|make that|or rather|actually"
    "|moment|korrektur|pardon|perdón|espera|attends|aspetta|stop|стоп|подожди(?:те)?|等等|不对|待って|잠깐"
)
"""Words that take back what was said before them; what follows counts."""

PLEASANTRIES = (
    "let me know|please let me|please feel|feel free|hope|i hope|if you|if there|if anything|would you|do you|did you"
    "|does (?:this|that) (?:help|make sense|answer)|is there anything|are there any|anything else|any (?:other|more"
    "|further)|thanks|thank you|you(?:['’]re| are) welcome|happy to|glad|i['’]?m (?:happy|glad|here)|i am (?:happy"
    "|glad|here)|good luck|have a (?:great|nice|good)|best (?:regards|of luck|wishes)|cheers|kind regards|enjoy"
    "|great question|good question|don['’]t hesitate|do not hesitate|want me to|shall i|should you|i can (?:also|help"
    "|explain|show|walk)|i(?:['’]d| would) be (?:happy|glad)|i['’]?d love|need (?:more|any|help)|just (?:ask|let me)"
    "|ask me|happy (?:learning|studying|coding|solving)|keep (?:up|practicing|going)|remember to|please (?:note|verify"
    "|check|consult|ask|double)|this is not (?:financial|legal|medical)|disclaimer|p\\.?s\\.?|confidence|i(?:['’]m"
    "| am) (?:\\w+ )?(?:confident|certain|sure)|note(?: that)?›(?:\\W|\\z)|as an ai|consult|always consult|see you|bye"
    "|take care|stay curious|have fun|i['’]ve (?:double|checked|verified)|checked|verified|done|q\\.?e\\.?d|∎|□|■"
    "|that['’]s it|that is it|falls du|falls sie|wenn du|wenn sie|ich hoffe|hoffe|lass mich|lassen sie"
    "|sag(?:en)? (?:mir|bescheid)|gerne|viel (?:erfolg|spaß|glück)|si (?:vous|tu|tienes|necesitas|quieres|usted"
    "|deseas)|j['’]espère|n['’]hésite[zs]?|espero|no dudes|avísame|dime|¿|se (?:hai|vuoi|avete|você|precisar|quiser"
    "|tiver)|spero|fammi|buona|boa sorte|qualquer|laat het|als je|ik hoop|hopelijk|если|надеюсь|дайте|обращайтесь"
    "|удачи|希望|如果|如有|请|祝|若|何か|お役|ご不明|ご質問|도움|더 |궁금|추가|필요"
)
"""How a line begins that says goodbye, offers more or hedges, and holds no answer."""

AFTERMATH = (
    "explanation|reasoning|rationale|justification|verification|proof|check|checking|double-?check|sanity check|why"
    "|here['’]?s why|to (?:verify|check|double-check|confirm)|let['’]?s (?:verify|check|double-check|confirm)"
    "|let me (?:verify|check|double-check|confirm)|we can (?:verify|check|confirm)|you can (?:verify|check|confirm)"
    "|notes?|sources?|references?|caveats?|fun fact|key (?:points|takeaways?)|steps?|details|background|context"
    "|(?:begründung|erklärung|probe|explication|vérification|explicación|verificación|explicação|verificação"
    "|spiegazione|verifica|uitleg|объяснение|проверка|обоснование|解释|解析|说明|验证|解説|説明|検算|설명|풀이|검산)"
)
"""Headings of what comes after an answer."""

OPENERS = (
    "(?:that|this|it|which) (?:would|must|should|has to|will|can only) be|so|thus|hence|therefore|then|ergo"
    "|consequently|accordingly|finally|overall|altogether|in (?:total|all|conclusion|summary|short|the end|sum)"
    "|to (?:conclude|summarize|sum up)|as a result|that(?: means| is|['’]s)|this (?:means|gives|yields|is|leaves"
    "|makes)|which (?:means|gives|is|makes|leaves)|that gives|that makes|that leaves|it(?: is|['’]s| must be"
    "| should be| has to be| would be| (?:appears|seems) to be)"
    "|we (?:get|have|find|obtain|conclude)|i (?:get|got|think|believe|guess)|that"
    "|which|must be|should be|and|but|yes|no|well|okay|ok|right|now|after (?:all|careful consideration)|there (?:are"
    "|is|were|was|will be)|they['’]?re|clearly|obviously|definitely|probably|likely|certainly|indeed|simply|actually"
    "|basically|of course|sure|i['’]m (?:sure|confident)|correct|also|daher|deshalb|folglich|somit|insgesamt|es (?:ist"
    "|sind)|donc|ainsi|par conséquent|c['’]est|il y a|por lo tanto|por tanto|así que|entonces|es|hay|portanto|logo"
    "|então|quindi|dunque|perciò|pertanto|dus|daarom|следовательно|значит|итак|поэтому|таким образом|это"
    "|因此|所以|故|综上|总之|よって|したがって|つまり|だから|따라서|그러므로"
)
"""Words that open a conclusion and carry nothing of it."""

PREAMBLES = (
    "looking|based|given|among|considering|of|from|after|between|comparing|according|using|since|because|as|if|when|by"
    "|with|while|although|though|even though|despite|whereas|contrary|unlike"
    "|selon|según|laut|secondo|segundo|nach|согласно"
)
"""Words that begin a clause before the statement ("Based on the text, ...")."""

UNSURE = (
    "not (?:sure|certain)|unsure|uncertain|don['’]?t know|do not know|no idea|can(?:not|['’]t| not) (?:determine|say"
    "|tell|answer|help|provide|be determined|compute|choose|assist|solve)|unable to|not able to|it depends|(?:not"
    "|don['’]t have) enough|insufficient|impossible to (?:say|tell|know)|(?:hard|difficult) to (?:say|tell)|as an ai"
    "|matter of opinion|is ambiguous|more (?:context|information|details)|no (?:right|correct|single) (?:answer"
    "|option)"
)
"""What a line says that gives no answer."""

UNABLE = "can(?:not|['’]t| not) do "
"""What it says before the thing that it cannot do."""

JSON_KEYS = (
    "final_answer", "finalanswer", "final answer", "final", "answer", "correct_answer", "correctanswer",
    "correct_option", "answer_letter", "selected_option", "selected", "choice", "option", "letter", "label",
    "prediction",
    "predicted_answer",
    "result", "solution", "value", "response", "output", "respuesta", "antwort", "réponse", "reponse", "risposta",
    "resposta", "ответ", "答案",
)  # fmt: skip

TAGS = "answer|final_answer|finalanswer|final-answer|final|ans|result|solution|output|response"

THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis", "<|channel|>final<|message|>"),
)

DECIMAL_COMMA = (
    "die|der|das|ist|und|antwort|beträgt|ergibt|sind|wir|ergebnis|also|lautet|la|el|los|las|es|respuesta|resultado|son"
    "|por|tenemos|entonces|le|les|est|réponse|donc|et|nous|résultat|soit|il|è|risposta|risultato|quindi|sono|della"
    "|resposta|é|são|portanto|então|het|antwoord|een|dus|zijn|svaret|är|odpowiedź|jest|wynosi|ответ|равно|равен|значит"
    "|итого|это|и|cevap|jawabannya|adalah|đáp|là|вартість|відповідь|vastaus|on|odpověď|je|răspunsul|este|também|y|und"
)
"""Small words of languages that write 3,5 for three and a half."""

QUESTION_HEADS = (
    "q|question|problem|input|passage|exercise|human|user|example|task|frage|aufgabe|pregunta|problema|problème"
    "|exercice|domanda|pergunta|вопрос|задача|问题|问|题目|問題|質問|질문|문제"
)
"""What a model that runs on puts before its next question."""

DANGLING = (
    "is|are|was|were|be|has|have|had|get|gets|equals|gives|the|an|of|to|in|on|at|by|for|from|with|and|or|but"
    "|which|who|than|if|when|because|then|as|we|they|its|their|these|must|can|will|would|should"
    "|ist|sind|und|oder|der|die|das|ein|eine|mit|von|zu|est|sont|et|ou|le|la|les|un|une|de|avec|son|el|los|con"
)
"""Words that no sentence ends with: there a text was cut."""

VERBS = (
    "comes?|came|rose|rises?|fell|falls?|equals?|freezes?|froze|boils?|totals?|amounts?|increase[sd]|decrease[sd]|grew|grows"
    "|reported|earn(?:s|ed)|weighs?|weighed|measures?|takes?|took|lasts?|lasted|arrive[sd]?|opens|opened|closes|closed"
    "|start(?:s|ed)|begins|began|ends|ended|leaves|gives?|gave|makes|becomes|became|goes|went|gets|got|needs|remains?"
    "|lies|occur(?:s|red)|happen(?:s|ed)|land(?:s|ed)|lives|lived|died|born|works|worked|produces|includes|consists"
    "|travel(?:s|ed|led)|drive[sn]?|runs|ran|moves|moved|sells|sold|buys|bought|spen(?:ds|t)|receive[sd]|gained|lost"
)
"""Verbs that tell a sentence from a name."""
